package dev.kerasvit.core

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
            val perPixel = minOf(width.toDouble() / input.width, height.toDouble() / input.height)
            val unit = input.crop * perPixel
            val boxWidth = unit * input.width
            val boxHeight = unit * input.height
            val x = (width - boxWidth) / 2
            val y = (height - boxHeight) / 2
            left = maxOf(x, 0.0).toFloat() // rounding may give -1e-14
            top = maxOf(y, 0.0).toFloat()
            right = (x + boxWidth).toFloat()
            bottom = (y + boxHeight).toFloat()
        }
    }
}
