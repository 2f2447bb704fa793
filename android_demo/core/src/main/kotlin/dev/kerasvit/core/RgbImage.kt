package dev.kerasvit.core

/**
 * An image of 8-bit R, G and B, row by row.
 *
 * It can be used again for an image of another size ([reshape]); memory is only allocated when an
 * image is larger than all before it.
 */
class RgbImage(width: Int, height: Int, bytes: ByteArray = ByteArray(sizeOf(width, height))) {
    var width = width
        private set
    var height = height
        private set

    /** R, G and B of each pixel; may be longer than `width * height * 3`. */
    var bytes = bytes
        private set

    init {
        require(bytes.size >= sizeOf(width, height)) {
            "expected ${sizeOf(width, height)} bytes for $width x $height pixels. " +
                "Received: ${bytes.size}."
        }
    }

    /** Makes this an image of another size, with any pixels. */
    fun reshape(width: Int, height: Int) {
        val size = sizeOf(width, height)
        if (bytes.size < size) bytes = ByteArray(size)
        this.width = width
        this.height = height
    }

    /** The part in a rectangle: this image if that is the whole, otherwise [into], reshaped. */
    fun crop(left: Int, top: Int, width: Int, height: Int, into: RgbImage): RgbImage {
        if (left == 0 && top == 0 && width == this.width && height == this.height) return this
        require(left >= 0 && top >= 0 && left + width <= this.width && top + height <= this.height) {
            "expected a part of ${this.width} x ${this.height} pixels. " +
                "Received: $width x $height from ($left, $top)."
        }
        into.reshape(width, height)
        for (row in 0 until height) {
            val start = ((top + row) * this.width + left) * CHANNELS
            bytes.copyInto(into.bytes, row * width * CHANNELS, start, start + width * CHANNELS)
        }
        return into
    }

    /**
     * Sets whole rows of pixels from `Bitmap.getPixels`, transparent ones blended with white
     * exactly as Python does it. Bitmaps may store colours multiplied by alpha and rounded; on
     * white the result is the same.
     *
     * @param argb A, R, G and B from the highest to the lowest byte; [width] values a row
     * @param firstRow the row of this image that the first values belong to
     */
    fun putArgb(argb: IntArray, firstRow: Int = 0, rows: Int = height) {
        require(firstRow >= 0 && rows >= 0 && firstRow + rows <= height) {
            "expected rows from 0 to $height. Received: $rows from $firstRow."
        }
        var at = firstRow * width * CHANNELS
        for (i in 0 until rows * width) {
            val pixel = argb[i]
            val alpha = pixel ushr 24
            bytes[at++] = overWhite(pixel ushr 16 and 0xFF, alpha).toByte()
            bytes[at++] = overWhite(pixel ushr 8 and 0xFF, alpha).toByte()
            bytes[at++] = overWhite(pixel and 0xFF, alpha).toByte()
        }
    }
}

// Pillow's rounded division by 255.
private fun overWhite(colour: Int, alpha: Int): Int {
    val sum = colour * alpha + 255 * (255 - alpha) + 128
    return sum + (sum shr 8) shr 8
}

private fun sizeOf(width: Int, height: Int): Int {
    val size = width.toLong() * height * CHANNELS
    require(width > 0 && height > 0 && size <= Int.MAX_VALUE) {
        "expected an image of 1 to ${Int.MAX_VALUE / CHANNELS} pixels. Received: $width x $height."
    }
    return size.toInt()
}
