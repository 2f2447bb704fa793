package dev.kerasvit.core

import java.nio.ByteBuffer

/**
 * Converts camera frames (`ImageFormat.YUV_420_888`) to RGB, with the colours of JPEG: BT.601 in
 * full range. Its buffers are used again for each frame. For one thread.
 */
class YuvConverter {
    private var luma = ByteArray(0)
    private var blue = ByteArray(0)
    private var red = ByteArray(0)

    /**
     * Converts one frame.
     *
     * @param y one byte a pixel; u and v: one value for two by two pixels. Read from byte 0;
     *     the buffers' positions are left anywhere.
     * @param yRowStride bytes from one row to the next; at least [width]
     * @param uvRowStride the same of [u] and [v]
     * @param uvPixelStride bytes from one value to the next in a row of [u] and [v]: 1 or 2
     * @param into is reshaped to [width] x [height]
     */
    fun convert(
        width: Int,
        height: Int,
        y: ByteBuffer,
        u: ByteBuffer,
        v: ByteBuffer,
        yRowStride: Int,
        uvRowStride: Int,
        uvPixelStride: Int,
        into: RgbImage,
    ) {
        into.reshape(width, height)
        // The last value of a row may be the last byte of the plane.
        val chromaBytes = (width - 1) / 2 * uvPixelStride + 1
        reserve(width, chromaBytes)
        for (row in 0 until height) {
            y.read(row * yRowStride, luma, width)
            if (row % 2 == 0) {
                u.read(row / 2 * uvRowStride, blue, chromaBytes)
                v.read(row / 2 * uvRowStride, red, chromaBytes)
            }
            convertRow(width, uvPixelStride, into.bytes, row * width * CHANNELS)
        }
    }

    private fun reserve(width: Int, chromaBytes: Int) {
        if (luma.size < width) luma = ByteArray(width)
        if (blue.size < chromaBytes) {
            blue = ByteArray(chromaBytes)
            red = ByteArray(chromaBytes)
        }
    }

    private fun convertRow(width: Int, uvPixelStride: Int, to: ByteArray, start: Int) {
        var at = start
        for (x in 0 until width) {
            val chroma = x / 2 * uvPixelStride
            val light = luma[x].toInt() and 0xFF
            val u = (blue[chroma].toInt() and 0xFF) - 128
            val v = (red[chroma].toInt() and 0xFF) - 128
            to[at] = level(light + (V_TO_RED * v + HALF shr FRACTION))
            to[at + 1] = level(light + (U_TO_GREEN * u + V_TO_GREEN * v + HALF shr FRACTION))
            to[at + 2] = level(light + (U_TO_BLUE * u + HALF shr FRACTION))
            at += CHANNELS
        }
    }
}

// A row at a time: single bytes of a direct buffer are slow to read.
private fun ByteBuffer.read(start: Int, into: ByteArray, count: Int) {
    moveTo(start)
    get(into, 0, count)
}

private fun level(value: Int): Byte =
    (if (value < 0) 0 else if (value > 255) 255 else value).toByte()

// 1.402, -0.344136, -0.714136 and 1.772 with 16 fractional bits, as in libjpeg.
private const val FRACTION = 16
private const val HALF = 1 shl (FRACTION - 1)
private const val V_TO_RED = 91881
private const val U_TO_GREEN = -22554
private const val V_TO_GREEN = -46802
private const val U_TO_BLUE = 116130
