package dev.kerasvit.android

import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.ColorSpace
import android.media.ExifInterface
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.sampleSize
import java.io.IOException
import java.io.InputStream
import java.nio.ByteBuffer

/**
 * A picture as Python would read it: upright, in sRGB, transparency blended with white; one of more
 * than 16 megapixels at a fraction of its size, see [sampleSize].
 *
 * @param open opens the encoded picture; called three times, because many streams cannot go back to
 *     their beginning
 * @throws PictureException if it is gone or cannot be decoded
 */
fun readPicture(open: () -> InputStream?): RgbImage {
    val opened = { opened(open) }
    val bitmap = decode(opened)
    val stored = try {
        rgbImageOf(bitmap)
    } finally {
        bitmap.recycle()
    }
    return orientationOf(opened).apply(stored, RgbImage(1, 1))
}

/** A picture cannot be read. */
class PictureException(val failure: PictureFailure, cause: Throwable? = null) :
    IOException("the picture is ${failure.name.lowercase()}", cause)

enum class PictureFailure {
    /** No longer there, or no longer allowed to be read. */
    GONE,

    /** Not a picture, or a damaged one. */
    UNREADABLE,
}

/** The pixels of a bitmap, transparent ones blended with white. */
fun rgbImageOf(bitmap: Bitmap): RgbImage {
    // Its pixels are in the GPU's memory.
    if (bitmap.config == Bitmap.Config.HARDWARE) {
        return rgbImageOf(bitmap.copy(Bitmap.Config.ARGB_8888, false))
    }
    val image = RgbImage(bitmap.width, bitmap.height)
    // A band of rows at a time: a second copy of the whole picture could be too much memory.
    val argb = IntArray(image.width * minOf(BAND, image.height))
    for (row in 0 until image.height step BAND) {
        val rows = minOf(BAND, image.height - row)
        bitmap.getPixels(argb, 0, image.width, 0, row, image.width, rows)
        image.putArgb(argb, row, rows)
    }
    return image
}

internal fun rgbImageOf(rgb: ByteBuffer, width: Int, height: Int): RgbImage {
    val image = RgbImage(width, height)
    require(rgb.remaining() >= image.bytes.size) {
        "expected ${image.bytes.size} bytes for $width x $height pixels. " +
            "Received: ${rgb.remaining()}."
    }
    rgb.duplicate().get(image.bytes)
    return image
}

private fun decode(open: () -> InputStream): Bitmap {
    val options = BitmapFactory.Options()
    options.inJustDecodeBounds = true
    open().use { BitmapFactory.decodeStream(it, null, options) }
    if (options.outWidth <= 0) throw PictureException(PictureFailure.UNREADABLE)
    options.inJustDecodeBounds = false
    options.inSampleSize = sampleSize(options.outWidth, options.outHeight)
    options.inPreferredConfig = Bitmap.Config.ARGB_8888
    options.inPreferredColorSpace = ColorSpace.get(ColorSpace.Named.SRGB)
    return open().use { BitmapFactory.decodeStream(it, null, options) }
        ?: throw PictureException(PictureFailure.UNREADABLE)
}

private fun orientationOf(open: () -> InputStream): Orientation {
    val tag = try {
        open().use { ExifInterface(it) }
            .getAttributeInt(ExifInterface.TAG_ORIENTATION, ExifInterface.ORIENTATION_NORMAL)
    } catch (_: IOException) {
        ExifInterface.ORIENTATION_NORMAL // Formats without EXIF.
    } catch (_: RuntimeException) {
        ExifInterface.ORIENTATION_NORMAL // What some versions of Android throw at a damaged tag.
    }
    return Orientation.ofExif(tag)
}

private fun opened(open: () -> InputStream?): InputStream = try {
    open() ?: throw PictureException(PictureFailure.GONE)
} catch (error: PictureException) {
    throw error
} catch (error: IOException) {
    throw PictureException(PictureFailure.GONE, error)
} catch (error: SecurityException) {
    // Permission to read a picture ends with the process, where the picker gives no other.
    throw PictureException(PictureFailure.GONE, error)
}

private const val BAND = 64
