package dev.kerasvit.demo.source

import android.content.ContentResolver
import android.content.res.AssetManager
import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.ColorSpace
import android.media.ExifInterface
import android.net.Uri
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.demo.state.Preview
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Sample
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.work.PictureException
import java.io.IOException
import java.io.InputStream

/** A bitmap that is small enough to draw. */
class BitmapPreview(val bitmap: Bitmap) : Preview

/** Reads pictures of the phone and of the app's assets. For the worker's thread. */
class Pictures(private val resolver: ContentResolver, private val assets: AssetManager) {
    private var stored = RgbImage(1, 1)
    private var turned = RgbImage(1, 1)

    /** The samples, in alphabetical order. */
    fun samples(): List<Sample> = assets.list(SAMPLES).orEmpty().sorted().map { name ->
        val thumbnail = try {
            BitmapPreview(smaller(read(Source.Sample(name)), THUMBNAIL_SIDE))
        } catch (_: PictureException) {
            null
        }
        Sample(name, thumbnail)
    }

    /**
     * A picture as Python would read it: upright, in sRGB, transparency blended with white.
     *
     * @return an image that the next call overwrites
     * @throws PictureException if it is gone or cannot be decoded
     */
    fun read(source: Source): RgbImage = try {
        val bitmap = decode(source)
        try {
            stored.put(bitmap)
        } finally {
            bitmap.recycle()
        }
        orientationOf(source).apply(stored, turned)
    } catch (error: OutOfMemoryError) {
        freeMemory()
        throw error
    }

    /** Gives back what earlier pictures took. */
    fun freeMemory() {
        stored = RgbImage(1, 1)
        turned = RgbImage(1, 1)
    }

    /** The picture at a size for the screen, from the very pixels that the model gets. */
    fun preview(image: RgbImage): Preview = BitmapPreview(smaller(image, PREVIEW_SIDE))

    // In two passes over the stream: many providers cannot go back to its beginning.
    private fun decode(source: Source): Bitmap {
        val options = BitmapFactory.Options()
        options.inJustDecodeBounds = true
        open(source).use { BitmapFactory.decodeStream(it, null, options) }
        if (options.outWidth <= 0) throw PictureException(Problem.PictureUnreadable)
        options.inJustDecodeBounds = false
        options.inSampleSize = sampleSize(options.outWidth, options.outHeight)
        options.inPreferredConfig = Bitmap.Config.ARGB_8888
        options.inPreferredColorSpace = ColorSpace.get(ColorSpace.Named.SRGB)
        // Colours multiplied by alpha have lost digits.
        options.inPremultiplied = false
        return open(source).use { BitmapFactory.decodeStream(it, null, options) }
            ?: throw PictureException(Problem.PictureUnreadable)
    }

    private fun orientationOf(source: Source): Orientation {
        val tag = try {
            open(source).use { ExifInterface(it) }
                .getAttributeInt(ExifInterface.TAG_ORIENTATION, ExifInterface.ORIENTATION_NORMAL)
        } catch (_: IOException) {
            // Formats without EXIF.
            ExifInterface.ORIENTATION_NORMAL
        }
        return Orientation.ofExif(tag)
    }

    private fun open(source: Source): InputStream = try {
        when (source) {
            is Source.Sample -> assets.open("$SAMPLES/${source.name}")
            is Source.Picture -> resolver.openInputStream(Uri.parse(source.uri))
            is Source.Golden, is Source.Camera ->
                error("expected a file with a picture. Received: $source.")
        } ?: throw PictureException(Problem.PictureGone)
    } catch (error: IOException) {
        throw PictureException(Problem.PictureGone, error)
    } catch (error: SecurityException) {
        // Permission to read a picture ends with the process, where the picker gives no other.
        throw PictureException(Problem.PictureGone, error)
    }
}

/**
 * The `inSampleSize` for a picture: as large as needed for [MOST_PIXELS], a power of two.
 *
 * Pictures up to 16 megapixels are decoded whole, so that the model gets Python's very pixels (the
 * decoders of JPEG may differ by one level). A larger one is decoded at half its size or less:
 * the decoder's averaging then comes before the antialiased resize, and scores may differ from
 * Python's in the second digit. Its 4 megapixels or more are still far above any model's input.
 */
internal fun sampleSize(width: Int, height: Int): Int {
    var size = 1
    while (width.toLong() / size * (height / size) > MOST_PIXELS) size *= 2
    return size
}

// A band of rows at a time: a second copy of the whole picture could be too much memory.
private fun RgbImage.put(bitmap: Bitmap) {
    reshape(bitmap.width, bitmap.height)
    val argb = IntArray(width * minOf(BAND, height))
    for (row in 0 until height step BAND) {
        val rows = minOf(BAND, height - row)
        bitmap.getPixels(argb, 0, width, 0, row, width, rows)
        putArgb(argb, row, rows)
    }
}

// Every nth pixel: only looked at, never classified.
private fun smaller(image: RgbImage, side: Int): Bitmap {
    val step = (maxOf(image.width, image.height) + side - 1) / side
    val width = maxOf(image.width / step, 1)
    val height = maxOf(image.height / step, 1)
    val argb = IntArray(width * height)
    for (y in 0 until height) {
        for (x in 0 until width) {
            val at = (y * step * image.width + x * step) * 3
            argb[y * width + x] = OPAQUE or
                (image.bytes[at].toInt() and 0xFF shl 16) or
                (image.bytes[at + 1].toInt() and 0xFF shl 8) or
                (image.bytes[at + 2].toInt() and 0xFF)
        }
    }
    return Bitmap.createBitmap(argb, width, height, Bitmap.Config.ARGB_8888)
}

private const val SAMPLES = "samples"
private const val MOST_PIXELS = 16_000_000L
private const val PREVIEW_SIDE = 1280
private const val THUMBNAIL_SIDE = 160
private const val BAND = 64
private const val OPAQUE = 0xFF shl 24
