package dev.kerasvit.core

import kotlin.math.floor

/**
 * The part of an image that the model sees, in pixels of the image; float32 as in Pillow.
 *
 * @property width the image's width
 * @property height the image's height
 */
class CropBox(val width: Int, val height: Int, input: Input) {
    val left: Float
    val top: Float
    val right: Float
    val bottom: Float

    /** Whether the model sees all of the image. */
    val isWhole: Boolean get() = left <= 0 && top <= 0 && right >= width && bottom >= height

    init {
        if (input.crop == null) {
            left = 0f
            top = 0f
            right = width.toFloat()
            bottom = height.toFloat()
        } else {
            // Other libraries resize the image to whole pixels, with the short side size / crop,
            // and cut the middle out at whole pixels. This is the part that they cut out.
            val columns = floor(input.width / input.crop + 0.5).toLong()
            val rows = floor(input.height / input.crop + 0.5).toLong()
            val resizedWidth = maxOf(columns, rows * width / height)
            val resizedHeight = maxOf(rows, columns * height / width)
            val x = (resizedWidth - input.width) / 2
            val y = (resizedHeight - input.height) / 2
            left = part(x, width, resizedWidth)
            top = part(y, height, resizedHeight)
            right = part(x + input.width, width, resizedWidth)
            bottom = part(y + input.height, height, resizedHeight)
        }
    }

    private fun part(place: Long, side: Int, resized: Long) =
        ((place * side).toDouble() / resized).toFloat()
}
