package dev.kerasvit.core

/**
 * Crops and resizes images of one size by Pillow's integer arithmetic, in two passes with rounding
 * to 8 bits in between: the width, then the height.
 */
internal class PillowResizer(
    private val width: Int,
    private val height: Int,
    private val input: Input,
) : Resizer {
    private val columns: Taps
    private val rows: Taps

    init {
        val box = CropBox(width, height, input)
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

    override fun fits(image: RgbImage) = image.width == width && image.height == height

    override fun run(image: RgbImage, writer: TensorWriter) {
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

private fun rounded(sum: Int): Byte {
    val level = sum shr BITS
    return (if (level < 0) 0 else if (level > 255) 255 else level).toByte()
}

private const val HALF = 1 shl (BITS - 1)
