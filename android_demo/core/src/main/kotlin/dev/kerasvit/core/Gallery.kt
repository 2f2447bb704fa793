package dev.kerasvit.core

import java.io.InputStream
import java.nio.FloatBuffer

/** Pictures with their features, which other pictures are compared with; see [readGallery]. */
class Gallery(
    /** The names of the classes; none if pictures have no classes. */
    val classes: List<String>,
    val pictures: List<GalleryPicture>,
    val vote: Vote,
)

/** A picture of a [Gallery]. */
class GalleryPicture(
    val name: String,
    /** The place of its class in [Gallery.classes]; null for none. */
    val target: Int?,
    private val vectors: Vectors,
    private val row: Int,
    /** Opens a small JPEG of it; throws an `IOException` if it is absent. */
    val openThumbnail: () -> InputStream,
) {
    /** Copies its features, of length 1. */
    fun copyFeatures(into: FloatArray) = vectors.copy(row, into)

    internal fun withTarget(target: Int?) =
        GalleryPicture(name, target, vectors, row, openThumbnail)
}

/** A gallery with the pictures of both, of which one may be null; [one] decides how they vote. */
fun merged(one: Gallery?, other: Gallery?): Gallery? {
    if (one == null || other == null) return one ?: other
    val classes = (one.classes + other.classes).distinct()
    val places = other.classes.map(classes::indexOf)
    val more = other.pictures.map { it.withTarget(it.target?.let(places::get)) }
    return Gallery(classes, one.pictures + more, one.vote)
}

/** Rows of [size] numbers, which may be mapped from a file. */
class Vectors(private val floats: FloatBuffer, private val size: Int) {
    // A whole row at a time is much faster, and needs the buffer's position.
    @Synchronized
    fun copy(row: Int, into: FloatArray) {
        floats.moveTo(row * size)
        floats.get(into)
    }
}

/** How the pictures of a gallery name a class. */
data class Vote(
    val of: Voters,
    /** How many of the [Voters.PICTURES] vote. */
    val neighbours: Int = 10,
    /** A vote is exp(similarity / temperature), before it is divided. */
    val temperature: Double = 0.07,
)

enum class Voters(val jsonName: String) {
    /** The most similar pictures with a class; a vote is divided by its class's pictures. */
    PICTURES("pictures"),

    /** All classes, each by the mean of its pictures. */
    MEANS("means"),
}

/** A picture of a gallery, and the cosine between its features and another picture's. */
data class SimilarPicture(val picture: GalleryPicture, val similarity: Double)

/** Whether a file in a bundle's folder [GALLERY] belongs to a gallery, by its name. */
internal fun isOfGallery(name: String): Boolean =
    "$GALLERY/$name" in setOf(GALLERY_JSON, VECTORS) || name.matches(thumbnailName)

private val thumbnailName = Regex("\\d{1,6}\\.jpg")

/** A bundle's folder of pictures to compare others with. */
const val GALLERY = "gallery"
internal const val GALLERY_JSON = "$GALLERY/gallery.json"
internal const val VECTORS = "$GALLERY/vectors.bin"
internal const val MOST_PICTURES = 100_000
