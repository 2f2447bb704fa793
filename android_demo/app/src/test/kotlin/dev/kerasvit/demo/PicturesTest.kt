package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.ColorSpace
import android.media.ExifInterface
import dev.kerasvit.android.PictureException
import dev.kerasvit.android.PictureFailure
import dev.kerasvit.android.readPicture
import dev.kerasvit.android.rgbImageOf
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.RgbImage
import dev.kerasvit.demo.source.Pictures
import dev.kerasvit.demo.state.Source
import java.io.File
import java.io.FileNotFoundException
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.mockito.Mockito.mock
import org.mockito.Mockito.`when`
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.annotation.Config
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements

@RunWith(RobolectricTestRunner::class)
class PicturesTest {
    @get:Rule
    val folder = TemporaryFolder()
    private val app = RuntimeEnvironment.getApplication()
    private val pictures = Pictures(app.contentResolver)
    private val files = FolderFiles(File("../testing/models/digits-int8"))

    @Test
    fun `a sample has the very pixels of the data set`() {
        val image = pictures.read(Source.Sample("digit-0.png"), files)
        assertEquals(8 to 8, image.width to image.height)
        // The levels 0 to 16 of scikit-learn's digit 78, as 0 to 255.
        val row = (0 until 8).map { image.level(it, 0) }
        assertEquals(listOf(0, 0, 159, 191, 159, 0, 0, 0), row)
    }

    /** Bitmaps store colours multiplied by alpha; on white, nothing is lost by that. */
    @Test
    fun `every colour and transparency is blended with white as Pillow does it`() {
        val image = read(bitmap(256, 256) { x, y -> y shl 24 or (x shl 16) or (x shl 8) or x })
        for (alpha in 0..255) for (colour in 0..255) {
            val sum = colour * alpha + 255 * (255 - alpha) + 128
            val expected = sum + (sum shr 8) shr 8 // Pillow's rounded division by 255.
            assertEquals(expected, image.level(colour, alpha), "$colour with $alpha")
        }
    }

    @Test
    fun `a photo is turned as its EXIF tag says`() {
        val file = folder.newFile("turned.jpg")
        val left = bitmap(32, 16) { x, _ -> if (x < 16) -1 else BLACK }
        file.outputStream().use { left.compress(Bitmap.CompressFormat.JPEG, 100, it) }
        ExifInterface(file.path).run {
            setAttribute(ExifInterface.TAG_ORIENTATION, "6")
            saveAttributes()
        }
        val image = pictures.read(Source.Picture("file://${file.path}"), files)
        assertEquals(16 to 32, image.width to image.height)
        assertEquals(255, image.level(8, 2)) // White was on the left and is on top now.
        assertEquals(0, image.level(8, 29))
    }

    /** Some versions of Android throw at a damaged tag. */
    @Test
    @Config(shadows = [DamagedExif::class])
    fun `a photo whose EXIF tag is damaged is read as it is`() {
        val image = read(bitmap(4, 2) { x, _ -> if (x < 2) -1 else BLACK })
        assertEquals(4 to 2, image.width to image.height)
        assertEquals(255, image.level(0, 0))
    }

    @Test
    fun `a photo of more than 16 megapixels is decoded at half of its size`() {
        val large = Bitmap.createBitmap(5000, 3400, Bitmap.Config.ARGB_8888)
        val image = read(large)
        assertEquals(2500 to 1700, image.width to image.height)
    }

    @Test
    @Config(sdk = [26, 35])
    fun `wide colours become those of sRGB`() {
        val wide = ColorSpace.get(ColorSpace.Named.DISPLAY_P3)
        val bitmap = Bitmap.createBitmap(1, 1, Bitmap.Config.ARGB_8888, false, wide)
        bitmap.setPixel(0, 0, 0xFFC86432.toInt())
        val image = read(bitmap)
        val found = image.bytes.map { it.toInt() and 0xFF }
        for ((level, expected) in found zip listOf(0xC8, 0x64, 0x32)) {
            assertEquals(expected.toDouble(), level.toDouble(), 2.0, "$found")
        }
    }

    @Test
    fun `a photo that may no longer be read is gone`() {
        for (error in listOf(SecurityException(), FileNotFoundException())) {
            val told = assertFailsWith<PictureException> { readPicture { throw error } }
            assertEquals(PictureFailure.GONE, told.failure)
        }
    }

    @Test
    fun `a bitmap in the GPU's memory is copied`() {
        val copy = bitmap(4, 2) { x, _ -> if (x < 2) -1 else BLACK }
        val bitmap = mock(Bitmap::class.java) // Robolectric has no GPU.
        `when`(bitmap.config).thenReturn(Bitmap.Config.HARDWARE)
        `when`(bitmap.copy(Bitmap.Config.ARGB_8888, false)).thenReturn(copy)
        val image = rgbImageOf(bitmap)
        assertEquals(listOf(255, 255, 0, 0), (0 until 4).map { image.level(it, 1) })
    }

    private fun read(bitmap: Bitmap): RgbImage {
        val file = folder.newFile("picture.png")
        file.outputStream().use { bitmap.compress(Bitmap.CompressFormat.PNG, 100, it) }
        return pictures.read(Source.Picture("file://${file.path}"), files)
    }

    private fun bitmap(width: Int, height: Int, colour: (x: Int, y: Int) -> Int): Bitmap {
        val bitmap = Bitmap.createBitmap(width, height, Bitmap.Config.ARGB_8888)
        bitmap.isPremultiplied = false
        val pixels = IntArray(width * height) { colour(it % width, it / width) }
        bitmap.setPixels(pixels, 0, width, 0, 0, width, height)
        return bitmap
    }

    private fun RgbImage.level(x: Int, y: Int): Int = bytes[(y * width + x) * 3].toInt() and 0xFF
}

@Implements(ExifInterface::class)
class DamagedExif {
    @Implementation
    fun getAttributeInt(tag: String, default: Int): Int =
        throw NumberFormatException("$tag, $default")
}

private const val BLACK = 0xFF000000.toInt()
