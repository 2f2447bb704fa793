package dev.kerasvit.demo.source

import android.media.Image
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.YuvConverter

/** From a camera's frame to an upright image, in buffers that are used again. */
class FrameConverter(private val orientation: Orientation) {
    private val converter = YuvConverter()
    private val stored = RgbImage(1, 1)
    private val turned = RgbImage(1, 1)

    /** Returns an image that the next call overwrites. */
    fun convert(frame: Image): RgbImage {
        val (y, u, v) = frame.planes
        converter.convert(
            frame.width,
            frame.height,
            y.buffer,
            u.buffer,
            v.buffer,
            yRowStride = y.rowStride,
            uvRowStride = u.rowStride,
            uvPixelStride = u.pixelStride,
            into = stored,
        )
        return orientation.apply(stored, turned)
    }
}
