package dev.kerasvit.demo

import android.graphics.ImageFormat
import android.graphics.SurfaceTexture
import android.media.Image
import android.media.ImageReader
import android.os.Handler
import android.view.Surface
import java.nio.ByteBuffer
import org.mockito.Mockito.mock
import org.mockito.Mockito.`when`
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements
import org.robolectric.annotation.RealObject
import org.robolectric.shadow.api.Shadow

/** Stands in for `ImageReader`: the test is the camera, and [send]s frames. */
@Implements(ImageReader::class)
class FakeImageReader {
    @RealObject
    private lateinit var reader: ImageReader
    private val waiting = ArrayDeque<Image>()
    private var listener: ImageReader.OnImageAvailableListener? = null
    private var handler: Handler? = null

    var isClosed = false
        private set

    fun send(frame: Image) {
        waiting.addLast(frame)
        handler?.post { listener?.onImageAvailable(reader) }
    }

    @Implementation
    fun setOnImageAvailableListener(
        listener: ImageReader.OnImageAvailableListener?,
        handler: Handler?,
    ) {
        this.listener = listener
        this.handler = handler
    }

    // As in Android: all but the newest are closed, and there may be none.
    @Implementation
    fun acquireLatestImage(): Image? {
        check(!isClosed) { "the reader is closed" }
        while (waiting.size > 1) waiting.removeFirst().close()
        return waiting.removeFirstOrNull()
    }

    @Implementation
    fun getSurface(): Surface = surface

    @Implementation
    fun close() {
        isClosed = true
    }

    private val surface = Surface(SurfaceTexture(0))

    companion object {
        /** The reader that was made last. */
        lateinit var newest: FakeImageReader
            private set

        @JvmStatic
        @Implementation
        fun newInstance(width: Int, height: Int, format: Int, mostImages: Int): ImageReader {
            check(width > 0 && height > 0 && format != 0 && mostImages > 1)
            val reader = Shadow.newInstanceOf(ImageReader::class.java)
            newest = Shadow.extract(reader)
            return reader
        }
    }
}

/** A frame in YUV_420_888, grey but for [u] and [v], with rows longer than the picture. */
fun cameraFrame(
    width: Int,
    height: Int,
    u: Int = 128,
    v: Int = 128,
    level: (x: Int, y: Int) -> Int,
): Image {
    val rowStride = width + 16
    val luma = ByteBuffer.allocateDirect(rowStride * height)
    for (y in 0 until height) {
        for (x in 0 until width) luma.put(y * rowStride + x, level(x, y).toByte())
    }
    val colours = listOf(u, v).map { colours(it, width, height) }
    val planes = arrayOf(plane(luma, rowStride, 1), colours[0], colours[1])
    val image = mock(Image::class.java)
    `when`(image.format).thenReturn(ImageFormat.YUV_420_888)
    `when`(image.width).thenReturn(width)
    `when`(image.height).thenReturn(height)
    `when`(image.planes).thenReturn(planes)
    return image
}

// Interleaved with the other colour, as most phones have it.
private fun colours(value: Int, width: Int, height: Int): Image.Plane {
    val rowStride = width + 16
    val plane = ByteBuffer.allocateDirect(rowStride * height / 2)
    for (i in 0 until plane.capacity() step 2) plane.put(i, value.toByte())
    return plane(plane, rowStride, 2)
}

private fun plane(buffer: ByteBuffer, rowStride: Int, pixelStride: Int): Image.Plane {
    val plane = mock(Image.Plane::class.java)
    `when`(plane.buffer).thenReturn(buffer)
    `when`(plane.rowStride).thenReturn(rowStride)
    `when`(plane.pixelStride).thenReturn(pixelStride)
    return plane
}
