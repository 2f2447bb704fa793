package dev.kerasvit.core

/**
 * How stored pixels must be turned to be upright.
 *
 * The image is transposed first, then its columns and rows are reversed.
 *
 * @property exif the value of the EXIF tag "Orientation"
 */
enum class Orientation(
    val exif: Int,
    private val transposed: Boolean,
    private val columnsReversed: Boolean,
    private val rowsReversed: Boolean,
) {
    UPRIGHT(1, false, false, false),
    MIRRORED(2, false, true, false),
    ROTATED_180(3, false, true, true),
    FLIPPED(4, false, false, true),
    TRANSPOSED(5, true, false, false),

    /** Must be turned clockwise by 90 degrees, as most phones' back cameras in portrait. */
    ROTATED_90(6, true, true, false),
    TRANSVERSED(7, true, true, true),

    /** Must be turned clockwise by 270 degrees. */
    ROTATED_270(8, true, false, true),
    ;

    /**
     * The upright image: [image] itself if it is upright, otherwise [into], which is reshaped.
     */
    fun apply(image: RgbImage, into: RgbImage): RgbImage {
        if (this == UPRIGHT) return image
        require(into !== image) { "expected another image to write to. Received: the same." }
        val width = if (transposed) image.height else image.width
        val height = if (transposed) image.width else image.height
        into.reshape(width, height)
        // Distances between neighbours of the upright image, in bytes of the stored one.
        var right = if (transposed) image.width * CHANNELS else CHANNELS
        var down = if (transposed) CHANNELS else image.width * CHANNELS
        var start = 0
        if (columnsReversed) {
            start += (width - 1) * right
            right = -right
        }
        if (rowsReversed) {
            start += (height - 1) * down
            down = -down
        }
        copy(image.bytes, start, right, down, into)
        return into
    }

    private fun copy(from: ByteArray, start: Int, right: Int, down: Int, into: RgbImage) {
        val to = into.bytes
        var at = 0
        for (y in 0 until into.height) {
            var source = start + y * down
            for (x in 0 until into.width) {
                to[at] = from[source]
                to[at + 1] = from[source + 1]
                to[at + 2] = from[source + 2]
                at += CHANNELS
                source += right
            }
        }
    }

    companion object {
        private val all = values()
        private val rotations = arrayOf(UPRIGHT, ROTATED_90, ROTATED_180, ROTATED_270)

        /** The orientation of an EXIF tag; [UPRIGHT] for values that do not exist, as in Pillow. */
        fun ofExif(value: Int): Orientation = all.getOrElse(value - 1) { UPRIGHT }

        /** The orientation of what must be turned clockwise by 0, 90, 180 or 270 degrees. */
        fun ofRotation(degrees: Int): Orientation {
            require(degrees % 90 == 0) { "expected a multiple of 90 degrees. Received: $degrees." }
            return rotations[degrees.mod(360) / 90]
        }

        /**
         * The orientation of a camera's frames.
         *
         * @param sensorDegrees `SENSOR_ORIENTATION` of the camera: 0, 90, 180 or 270
         * @param displayDegrees `Display.getRotation()` in degrees: 0, 90, 180 or 270
         * @param isFront whether the camera looks at the user
         */
        fun ofCamera(sensorDegrees: Int, displayDegrees: Int, isFront: Boolean): Orientation =
            ofRotation(sensorDegrees + if (isFront) displayDegrees else -displayDegrees)
    }
}
