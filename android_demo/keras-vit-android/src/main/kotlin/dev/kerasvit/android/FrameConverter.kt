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
        read(
            frame.format,
            frame.width,
            frame.height,
            frame.planes,
            { it.buffer },
            { it.rowStride },
            { it.pixelStride },
        )
        return orientation.apply(stored, turned)
    }

    /** Reads a frame, whose planes are of Android's class or of CameraX's. */
    // Inline: function objects would be allocations for each frame.
    internal inline fun <Plane> read(
        format: Int,
        width: Int,
        height: Int,
        planes: Array<Plane>,
        buffer: (Plane) -> ByteBuffer,
        rowStride: (Plane) -> Int,
        pixelStride: (Plane) -> Int,
    ) {
        if (!isYuv(format)) return readRgba(width, height, buffer(planes[0]), rowStride(planes[0]))
        val (y, u, v) = planes
        converter.convert(
            width,
            height,
            buffer(y),
            buffer(u),
            buffer(v),
            yRowStride = rowStride(y),
            uvRowStride = rowStride(u),
            uvPixelStride = pixelStride(u),
            into = stored,
        )
    }

    private fun readRgba(width: Int, height: Int, rgba: ByteBuffer, rowStride: Int) {
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

private fun isYuv(format: Int): Boolean {
    require(format == ImageFormat.YUV_420_888 || format == PixelFormat.RGBA_8888) {
        "expected a frame in YUV_420_888 or RGBA_8888. Received: format $format."
    }
    return format == ImageFormat.YUV_420_888
}
