package dev.kerasvit.core

/**
 * Resizes images of one size as MediaPipe's ImageClassifier does on CPUs: bilinear, from corner to
 * corner of the whole image, without smoothing. `keras_vit/data/mediapipe.py` explains it; pixels
 * are equal bit for bit, because the same operations are done in the same order.
 */
internal class MediaPipeResizer(
    private val width: Int,
    private val height: Int,
    private val input: Input,
) : Resizer {
    // The column and the row that each output pixel reads, in units of 1 / UNIT of a pixel.
    private val columns = IntArray(input.height * input.width)
    private val rows = IntArray(input.height * input.width)
    private val result = ByteArray(input.width * CHANNELS)

    init {
        val warp = Warp(height.toDouble(), width.toDouble(), input)
        val block = minOf(BLOCK / minOf(BLOCK_ROWS, input.height), input.width)
        for (y in 0 until input.height) {
            for (x in 0 until input.width) {
                val start = (x / block * block).toDouble()
                val within = (x % block).toDouble()
                val whole = warp.whole - (warp.left * start + warp.up * y)
                val scale = UNIT / (whole - warp.left * within)
                val column = warp.across * start + warp.across * within
                columns[y * input.width + x] = Math.rint(scale * column).toInt()
                rows[y * input.width + x] = Math.rint(scale * (warp.down * y)).toInt()
            }
        }
    }

    override fun fits(image: RgbImage) = image.width == width && image.height == height

    override fun run(image: RgbImage, writer: TensorWriter) {
        for (y in 0 until input.height) {
            for (x in 0 until input.width) blend(image.bytes, y * input.width + x, x * CHANNELS)
            writer.write(y, result)
        }
    }

    private fun blend(bytes: ByteArray, place: Int, to: Int) {
        val x = columns[place] % UNIT
        val y = rows[place] % UNIT
        // Pixels outside are those of the edge.
        val left = minOf(columns[place] / UNIT, width - 1)
        val top = minOf(rows[place] / UNIT, height - 1)
        val right = minOf(left + 1, width - 1)
        val bottom = minOf(top + 1, height - 1)
        for (channel in 0 until CHANNELS) {
            val above = level(bytes, top, left, channel) * (UNIT - x) +
                level(bytes, top, right, channel) * x
            val below = level(bytes, bottom, left, channel) * (UNIT - x) +
                level(bytes, bottom, right, channel) * x
            val blended = above * (UNIT - y) + below * y
            result[to + channel] = ((blended + UNIT * UNIT / 2) / (UNIT * UNIT)).toByte()
        }
    }

    private fun level(bytes: ByteArray, row: Int, column: Int, channel: Int): Int =
        bytes[(row * width + column) * CHANNELS + channel].toInt() and 0xFF
}

/** The projection from output pixels to those of an image, with OpenCV's rounding errors. */
private class Warp(height: Double, width: Double, input: Input) {
    val across: Double
    val down: Double
    val left: Double
    val up: Double
    val whole: Double

    init {
        val newHeight = input.height.toDouble()
        val newWidth = input.width.toDouble()
        val oneDown = height * (1.0 / height)
        val oneAcross = width * (1.0 / width)
        val tall = height * newHeight
        val wide = width * newWidth
        val lostDown = newHeight - oneDown * newHeight
        val lostAcross = newWidth - oneAcross * newWidth
        val moreDown = oneDown * tall - tall
        val moreAcross = oneAcross * wide - wide
        val factor = moreAcross * (1.0 / (width * newHeight))
        val q = (lostAcross + factor * lostDown) / (factor * moreDown - height * newWidth)
        val p = (moreDown * q - lostDown) / (width * newHeight)
        val diagonalDown = (newHeight + tall * q) / height
        val diagonalAcross = (newWidth + wide * p) / width
        val area = diagonalAcross * diagonalDown
        val inverse = 1.0 / area
        across = diagonalDown * inverse
        down = diagonalAcross * inverse
        left = diagonalDown * p * inverse
        up = diagonalAcross * q * inverse
        whole = area * inverse
    }
}

private const val UNIT = 32
private const val BLOCK = 1024
private const val BLOCK_ROWS = 16
