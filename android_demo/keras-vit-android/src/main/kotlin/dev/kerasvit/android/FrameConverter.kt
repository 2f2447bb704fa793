package dev.kerasvit.android

import android.graphics.ImageFormat
import android.graphics.PixelFormat
import android.media.Image
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.YuvConverter
import dev.kerasvit.core.moveTo
import java.nio.ByteBuffer

/** From a camera's frame to an upright image, in buffers that are used again. For one thread. */
class FrameConverter {
    private val converter = YuvConverter()
    private val stored = RgbImage(1, 1)
    private val cropped = RgbImage(1, 1)
    private val turned = RgbImage(1, 1)
    private var row = ByteArray(0)

    /**
     * The whole frame, upright.
     *
     * @param frame in `YUV_420_888` or `RGBA_8888`
     * @return an image that the next call overwrites
     * @throws IllegalArgumentException if the frame has another format
     */
    fun convert(frame: Image, orientation: Orientation): RgbImage {
        val planes = frame.planes
        if (isYuv(frame.format)) {
            val (y, u, v) = planes
            readYuv(
                frame.width,
                frame.height,
                y.buffer,
                u.buffer,
                v.buffer,
                y.rowStride,
                u.rowStride,
                u.pixelStride,
            )
        } else {
            readRgba(frame.width, frame.height, planes[0].buffer, planes[0].rowStride)
        }
        return orientation.apply(stored, turned)
    }

    internal fun readYuv(
        width: Int,
        height: Int,
        y: ByteBuffer,
        u: ByteBuffer,
        v: ByteBuffer,
        yRowStride: Int,
        uvRowStride: Int,
        uvPixelStride: Int,
    ) = converter.convert(width, height, y, u, v, yRowStride, uvRowStride, uvPixelStride, stored)

    internal fun readRgba(width: Int, height: Int, rgba: ByteBuffer, rowStride: Int) {
        stored.reshape(width, height)
        if (row.size < width * 4) row = ByteArray(width * 4)
        val pixels = stored.bytes
        for (y in 0 until height) {
            rgba.moveTo(y * rowStride)
            rgba.get(row, 0, width * 4)
            for (x in 0 until width) {
                val at = (y * width + x) * 3
                pixels[at] = row[x * 4]
                pixels[at + 1] = row[x * 4 + 1]
                pixels[at + 2] = row[x * 4 + 2]
            }
        }
    }

    /** The part of what was read last that lies in a rectangle. */
    internal fun upright(
        left: Int,
        top: Int,
        width: Int,
        height: Int,
        orientation: Orientation,
    ): RgbImage = orientation.apply(stored.crop(left, top, width, height, cropped), turned)
}

internal fun isYuv(format: Int): Boolean {
    require(format == ImageFormat.YUV_420_888 || format == PixelFormat.RGBA_8888) {
        "expected a frame in YUV_420_888 or RGBA_8888. Received: format $format."
    }
    return format == ImageFormat.YUV_420_888
}
