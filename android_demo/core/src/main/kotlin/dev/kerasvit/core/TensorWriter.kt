package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.FloatBuffer

/** Scales rows of resized pixels and writes them to the input tensor. */
internal class TensorWriter(private val input: Input, private val tensor: ByteBuffer) {
    // A pixel has only 256 values a channel: what becomes of each is computed once.
    private val scaled = FloatArray(CHANNELS * LEVELS) {
        (it % LEVELS - input.mean[it / LEVELS]) / input.scale[it / LEVELS]
    }
    private val quantized = ByteArray(CHANNELS * LEVELS) { quantize(scaled[it], input).toByte() }
    private val floats: FloatBuffer = tensor.asFloatBuffer()
    private val floatRow = FloatArray(input.width * CHANNELS)
    private val byteRow = ByteArray(input.width * CHANNELS)

    /** Writes one row of R, G and B. */
    fun write(row: Int, pixels: ByteArray) {
        val isFloat = input.type == DataType.FLOAT32
        var at = 0
        while (at < byteRow.size) {
            for (channel in 0 until CHANNELS) {
                val entry = channel * LEVELS + (pixels[at].toInt() and 0xFF)
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
