package dev.kerasvit.core

/** Crops and resizes images of one size. */
internal interface Resizer {
    fun fits(image: RgbImage): Boolean

    /** Writes the rows of the resized image. */
    fun run(image: RgbImage, writer: TensorWriter)
}

/** The resizer of a file for images of one size. */
internal fun resizer(width: Int, height: Int, input: Input): Resizer =
    if (input.interpolation == Interpolation.MEDIAPIPE) {
        MediaPipeResizer(width, height, input)
    } else {
        PillowResizer(width, height, input)
    }
