package dev.kerasvit.core

/**
 * Crops and resizes images of one size by Pillow's integer arithmetic, in two passes with rounding
 * to 8 bits in between: the width, then the height.
 */
internal class Resizer(private val width: Int, private val height: Int, private val input: Input) {
    private val columns: Taps
    private val rows: Taps

    init {
        val box = Box(width, height, input)
        columns = Taps(width, box.left, box.right, input.width, input.interpolation)
        rows = Taps(height, box.top, box.bottom, input.height, input.interpolation)
    }

    private val rowSize = input.width * CHANNELS

    // Only rows that the second pass reads.
    private val firstRow = rows.first.min()
    private val lastRow = rows.first.indices.maxOf { rows.first[it] + rows.count[it] }
    private val narrowed = ByteArray((lastRow - firstRow) * rowSize)
    private val sums = IntArray(rowSize)
    private val result = ByteArray(rowSize)

    fun fits(image: RgbImage) = image.width == width && image.height == height

    fun run(image: RgbImage, writer: TensorWriter) {
        for (y in firstRow until lastRow) narrowRow(image.bytes, y)
        for (y in 0 until input.height) {
            addRows(y)
            writer.write(y, result)
        }
    }

    private fun narrowRow(bytes: ByteArray, y: Int) {
        val row = y * width * CHANNELS
        var at = (y - firstRow) * rowSize
        for (x in 0 until input.width) {
            var from = row + columns.first[x] * CHANNELS
            val start = x * columns.width
            var red = HALF
            var green = HALF
            var blue = HALF
            for (tap in start until start + columns.count[x]) {
                val weight = columns.weights[tap]
                red += (bytes[from].toInt() and 0xFF) * weight
                green += (bytes[from + 1].toInt() and 0xFF) * weight
                blue += (bytes[from + 2].toInt() and 0xFF) * weight
                from += CHANNELS
            }
            narrowed[at] = rounded(red)
            narrowed[at + 1] = rounded(green)
            narrowed[at + 2] = rounded(blue)
            at += CHANNELS
        }
    }

    private fun addRows(y: Int) {
        sums.fill(HALF)
        var from = (rows.first[y] - firstRow) * rowSize
        val start = y * rows.width
        for (tap in start until start + rows.count[y]) {
            val weight = rows.weights[tap]
            for (i in 0 until rowSize) sums[i] += (narrowed[from + i].toInt() and 0xFF) * weight
            from += rowSize
        }
        for (i in 0 until rowSize) result[i] = rounded(sums[i])
    }
}

/** The part of an image that is resized, in float32 as in Pillow. */
private class Box(width: Int, height: Int, input: Input) {
    val left: Float
    val top: Float
    val right: Float
    val bottom: Float

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

private fun rounded(sum: Int): Byte {
    val level = sum shr BITS
    return (if (level < 0) 0 else if (level > 255) 255 else level).toByte()
}

private const val HALF = 1 shl (BITS - 1)
