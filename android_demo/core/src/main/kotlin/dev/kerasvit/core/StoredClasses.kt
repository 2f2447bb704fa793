package dev.kerasvit.core

import java.io.File
import java.io.IOException
import java.nio.FloatBuffer

/**
 * Classes that a user adds to models of features, by a few pictures of each: a gallery for each
 * model, by its SHA-256. For one thread at a time.
 *
 * @param folder nothing else may be in it; made with the first class
 */
class StoredClasses(private val folder: File) {
    /** What was added to a model; null for nothing. What is damaged is removed. */
    fun read(description: Description): Gallery? = try {
        readGallery(FolderFiles(placeOf(description)), description)
    } catch (error: BundleException) {
        if (error.problem is BundleProblem.BadGallery) remove(description)
        null
    }

    /**
     * Adds pictures to a class, which may be new.
     *
     * @throws IOException if the folder cannot be written; then nothing was changed
     */
    fun add(description: Description, name: String, pictures: List<NewPicture>) {
        if (pictures.isEmpty()) return
        val old = read(description)
        val count = old.countOf(name)
        val more = pictures.mapIndexed { i, it -> it.named("$name ${count + i + 1}") }
        val new = Gallery(listOf(name), more, Vote(Voters.MEANS))
        write(description, checkNotNull(merged(old, new)))
    }

    /**
     * Removes a class with its pictures.
     *
     * @throws IOException if the folder cannot be written; then nothing was changed
     */
    fun remove(description: Description, name: String) {
        val old = read(description) ?: return
        val classes = old.classes - name
        if (classes.isEmpty()) return remove(description)
        val pictures = old.pictures.mapNotNull { picture ->
            val kept = old.classes[picture.target ?: return@mapNotNull null]
            if (kept == name) null else picture.withTarget(classes.indexOf(kept))
        }
        write(description, Gallery(classes, pictures, old.vote))
    }

    /** Removes all that was added to a model. */
    fun remove(description: Description) {
        placeOf(description).deleteRecursively()
    }

    private fun write(description: Description, gallery: Gallery) {
        val written = File(folder, WRITTEN)
        val replaced = File(folder, REPLACED)
        // The process may have ended while there was one.
        for (left in listOf(written, replaced)) left.deleteRecursively()
        try {
            writeGallery(written, description, gallery)
            val place = placeOf(description)
            place.renameTo(replaced)
            if (!written.renameTo(place)) {
                replaced.renameTo(place)
                throw IOException("$folder cannot be written")
            }
        } finally {
            written.deleteRecursively()
            replaced.deleteRecursively()
        }
    }

    private fun placeOf(description: Description) = File(folder, description.sha256)
}

/** How many pictures of a class there are. */
fun Gallery?.countOf(name: String): Int =
    this?.pictures.orEmpty().count { it.target != null && this!!.classes[it.target] == name }

/**
 * A picture of a class, whose features are made of length 1.
 *
 * @param thumbnail a small JPEG of it
 */
class NewPicture private constructor(
    private val features: FloatArray,
    private val thumbnail: ByteArray,
) {
    internal fun named(name: String) = GalleryPicture(
        name,
        target = 0,
        Vectors(FloatBuffer.wrap(features), features.size),
        row = 0,
    ) { thumbnail.inputStream() }

    companion object {
        /** Null for features that are all zero, which are like nothing. */
        fun of(features: FloatArray, thumbnail: ByteArray): NewPicture? {
            val unit = DoubleArray(features.size)
            unit(features, unit)
            if (unit.all { it == 0.0 }) return null
            return NewPicture(FloatArray(unit.size) { unit[it].toFloat() }, thumbnail)
        }
    }
}

private const val WRITTEN = ".written"
private const val REPLACED = ".replaced"
