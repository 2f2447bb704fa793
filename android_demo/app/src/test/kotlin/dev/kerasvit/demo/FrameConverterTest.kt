package dev.kerasvit.demo

import android.graphics.PixelFormat
import android.media.Image
import dev.kerasvit.android.FrameConverter
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import java.nio.ByteBuffer
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import org.junit.Test
import org.mockito.Mockito.mock
import org.mockito.Mockito.`when`

class FrameConverterTest {
    private val converter = FrameConverter()

    @Test
    fun `red light is red, and blue light blue`() {
        // libjpeg's Y, Cb and Cr of pure red and of pure blue.
        val red = cameraFrame(4, 2, u = 85, v = 255) { _, _ -> 76 }
        assertEquals(listOf(254, 0, 0), converter.convert(red, Orientation.UPRIGHT).pixel(3, 1))
        val blue = cameraFrame(4, 2, u = 255, v = 107) { _, _ -> 29 }
        assertEquals(listOf(0, 0, 254), converter.convert(blue, Orientation.UPRIGHT).pixel(3, 1))
    }

    @Test
    fun `frames in RGBA have the same pixels, without what lies beside them`() {
        val frame = rgba(3, 2)
        val image = converter.convert(frame, Orientation.ROTATED_90)
        assertEquals(2 to 3, image.width to image.height)
        // On top lies what was at the left, from the bottom upwards.
        assertEquals(listOf(10, 100, 200), image.pixel(0, 0))
        assertEquals(listOf(0, 100, 200), image.pixel(1, 0))
        assertEquals(listOf(2, 100, 200), image.pixel(1, 2))
    }

    @Test
    fun `other formats are refused`() {
        val frame = mock(Image::class.java)
        `when`(frame.format).thenReturn(PixelFormat.RGB_565)
        `when`(frame.planes).thenReturn(emptyArray())
        val error = assertFailsWith<IllegalArgumentException> {
            converter.convert(frame, Orientation.UPRIGHT)
        }
        assertEquals(
            "expected a frame in YUV_420_888 or RGBA_8888. Received: format 4.",
            error.message,
        )
    }

    private fun rgba(width: Int, height: Int): Image {
        val rowStride = width * 4 + 8
        val buffer = ByteBuffer.allocateDirect(rowStride * height)
        for (i in 0 until buffer.capacity()) buffer.put(i, 77)
        for (y in 0 until height) for (x in 0 until width) {
            val colours = listOf(10 * y + x, 100, 200, 255)
            for ((c, level) in colours.withIndex()) {
                buffer.put(y * rowStride + x * 4 + c, level.toByte())
            }
        }
        val plane = mock(Image.Plane::class.java)
        `when`(plane.buffer).thenReturn(buffer)
        `when`(plane.rowStride).thenReturn(rowStride)
        val image = mock(Image::class.java)
        `when`(image.format).thenReturn(PixelFormat.RGBA_8888)
        `when`(image.width).thenReturn(width)
        `when`(image.height).thenReturn(height)
        `when`(image.planes).thenReturn(arrayOf(plane))
        return image
    }
}

private fun RgbImage.pixel(x: Int, y: Int): List<Int> =
    List(3) { bytes[(y * width + x) * 3 + it].toInt() and 0xFF }
