package dev.kerasvit.demo.source

import android.content.ContentResolver
import android.graphics.Bitmap
import android.net.Uri
import android.util.LruCache
import dev.kerasvit.android.PictureException
import dev.kerasvit.android.readPicture
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.GalleryPicture
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.SAMPLES
import dev.kerasvit.demo.state.Preview
import dev.kerasvit.demo.state.Sample
import dev.kerasvit.demo.state.Source
import java.io.ByteArrayOutputStream
import java.io.InputStream

/** A bitmap that is small enough to draw. */
class BitmapPreview(val bitmap: Bitmap) : Preview

/** Reads pictures of the phone and of bundles. For the worker's thread. */
class Pictures(private val resolver: ContentResolver) {
    private val newest = LruCache<GalleryPicture, Preview>(KEPT)

    /** A bundle's samples with their thumbnails, in alphabetical order. */
    fun samples(files: BundleFiles): List<Sample> = files.samples().map { name ->
        Sample(name, thumbnail { files.open("$SAMPLES/$name") })
    }

    /** A picture of a gallery; null if it cannot be read. The newest are kept. */
    fun thumbnail(picture: GalleryPicture): Preview? = newest[picture]
        ?: thumbnail(picture.openThumbnail)?.also { newest.put(picture, it) }

    private fun thumbnail(open: () -> InputStream): Preview? = try {
        BitmapPreview(smaller(readPicture(open), THUMBNAIL_SIDE))
    } catch (_: PictureException) {
        null
    }

    /**
     * A picture as Python would read it: upright, in sRGB, transparency blended with white.
     *
     * @param files the bundle whose sample it may be
     * @throws PictureException if it is gone or cannot be decoded
     */
    fun read(source: Source, files: BundleFiles): RgbImage = readPicture {
        when (source) {
            is Source.Sample -> files.open("$SAMPLES/${source.name}")
            is Source.Picture -> resolver.openInputStream(Uri.parse(source.uri))
            is Source.Golden, is Source.Camera ->
                error("expected a file with a picture. Received: $source.")
        }
    }

    /** A picture of the phone; as [read]. */
    fun read(uri: String): RgbImage = readPicture { resolver.openInputStream(Uri.parse(uri)) }

    /** A small JPEG of a picture. */
    fun thumbnail(image: RgbImage): ByteArray {
        val bytes = ByteArrayOutputStream()
        smaller(image, THUMBNAIL_SIDE).compress(Bitmap.CompressFormat.JPEG, JPEG_QUALITY, bytes)
        return bytes.toByteArray()
    }

    /** The picture at a size for the screen, from the very pixels that the model gets. */
    fun preview(image: RgbImage): Preview = BitmapPreview(smaller(image, PREVIEW_SIDE))
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

private const val PREVIEW_SIDE = 1280
private const val THUMBNAIL_SIDE = 160
private const val JPEG_QUALITY = 85
private const val KEPT = 64
private const val OPAQUE = 0xFF shl 24
