package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.FloatBuffer

/** Scales rows of resized pixels and writes them to the input tensor. */
internal class TensorWriter(private val input: Input, private val tensor: ByteBuffer) {
    // A pixel has only 256 values a channel: what becomes of each is computed once.
    private val scaled = FloatArray(input.channels * LEVELS) {
        (it % LEVELS - input.mean[it / LEVELS]) / input.scale[it / LEVELS]
    }
    private val quantized = ByteArray(input.channels * LEVELS) { quantize(scaled[it], input).toByte() }
    private val floats: FloatBuffer = tensor.asFloatBuffer()
    private val floatRow = FloatArray(input.width * input.channels)
    private val byteRow = ByteArray(input.width * input.channels)
    private val greyRow = ByteArray(input.width)

    /** Writes one row of R, G and B. */
    fun write(row: Int, pixels: ByteArray) {
        val isFloat = input.type == DataType.FLOAT32
        val levels = if (input.colours == Colours.GREY) greyOf(pixels) else pixels
        var at = 0
        while (at < byteRow.size) {
            for (channel in 0 until input.channels) {
                val entry = channel * LEVELS + (levels[at].toInt() and 0xFF)
                if (isFloat) floatRow[at] = scaled[entry] else byteRow[at] = quantized[entry]
                at++
            }
        }
        if (isFloat) {
            floats.moveTo(row * floatRow.size)
            floats.put(floatRow)
        } else {
            tensor.moveTo(row * byteRow.size)
            tensor.put(byteRow)
            tensor.moveTo(0)
        }
    }

    /** The luma of a row of R, G and B, rounded as in Pillow. */
    private fun greyOf(pixels: ByteArray): ByteArray {
        for (x in greyRow.indices) {
            val red = pixels[x * CHANNELS].toInt() and 0xFF
            val green = pixels[x * CHANNELS + 1].toInt() and 0xFF
            val blue = pixels[x * CHANNELS + 2].toInt() and 0xFF
            greyRow[x] = (red * 19595 + green * 38470 + blue * 7471 + 0x8000 shr 16).toByte()
        }
        return greyRow
    }
}

/** A float as an integer of the input's type; halves are rounded to even, as in NumPy. */
internal fun quantize(value: Float, input: Input): Int {
    val quantization = input.quantization
    val integer = if (quantization == null) {
        value.toInt()
    } else {
        Math.rint((value / quantization.scale + quantization.zeroPoint).toDouble()).toInt()
    }
    val isUnsigned = input.type == DataType.UINT8
    return if (isUnsigned) integer.coerceIn(0, 255) else integer.coerceIn(-128, 127)
}

/** The values of an input tensor: floats, or its integers as floats. */
internal fun readTensor(tensor: ByteBuffer, input: Input): FloatArray = FloatArray(input.size) {
    when (input.type) {
        DataType.FLOAT32 -> tensor.getFloat(it * 4)
        DataType.UINT8 -> (tensor.get(it).toInt() and 0xFF).toFloat()
        DataType.INT8 -> tensor.get(it).toFloat()
    }
}

private const val LEVELS = 256
