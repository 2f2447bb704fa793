package dev.kerasvit.core

import java.io.FileNotFoundException
import java.io.IOException
import java.nio.ByteOrder
import java.nio.FloatBuffer
import kotlin.math.abs
import kotlin.math.sqrt

/**
 * Reads and checks the gallery of a bundle; null if it has none.
 *
 * @throws BundleException with [BundleProblem.BadGallery], or [BundleProblem.NewerFormat]
 */
internal fun readGallery(files: BundleFiles, description: Description): Gallery? {
    if (!files.has(GALLERY_JSON)) return null
    return try {
        read(files, description)
    } catch (error: BundleException) {
        throw when (val problem = error.problem) {
            is BundleProblem.Corrupt -> bad(problem.file, problem.detail)
            is BundleProblem.Missing -> bad(problem.file, "it is missing.")
            else -> error
        }
    }
}

/** The path of a picture's thumbnail in a bundle. */
internal fun thumbnail(place: Int): String = "$GALLERY/$place.jpg"

private fun read(files: BundleFiles, description: Description): Gallery {
    val json = readJson(files, GALLERY_JSON, MOST_JSON)
    val features = description.output.size
    val isOfModel = json.text("sha256") == description.sha256
    if (!isOfModel || json.integer("features", 1, Int.MAX_VALUE.toLong()) != features.toLong()) {
        corrupt(GALLERY_JSON, "it is of another model.tflite.")
    }
    val classes = json.texts("classes")
    val entries = json.children("pictures")
    if (entries.size !in 1..MOST_PICTURES) {
        corrupt(GALLERY_JSON, "expected 1 to $MOST_PICTURES pictures. Received: ${entries.size}.")
    }
    val vectors = Vectors(readVectors(files, entries.size, features), features)
    val pictures = entries.mapIndexed { row, entry ->
        val target = entry.target(classes.size)
        GalleryPicture(entry.text("name"), target, vectors, row) { files.open(thumbnail(row)) }
    }
    val empty = classes.indices - pictures.mapNotNull { it.target }.toSet()
    if (classes.distinct().size < classes.size) corrupt(GALLERY_JSON, "a class is there twice.")
    if (empty.isNotEmpty()) corrupt(GALLERY_JSON, "the class ${classes[empty[0]]} has no pictures.")
    return Gallery(classes, pictures, readVote(json.child("vote")))
}

private fun Fields.target(classes: Int): Int? =
    if ("target" in names) optional("target") { integer(it, 0, classes - 1L).toInt() } else null

private fun readVote(json: Fields) = Vote(
    of = json.choice("of", Voters.values(), Voters::jsonName),
    neighbours = json.integer("neighbours", 1, Int.MAX_VALUE.toLong()).toInt(),
    temperature = json.number("temperature").also {
        if (it <= 0) json.fail("temperature", "a positive number")
    },
)

private fun readVectors(files: BundleFiles, pictures: Int, features: Int): FloatBuffer {
    val bytes = reading(VECTORS) { files.map(VECTORS) }
    val expected = 4L * pictures * features
    if (bytes.capacity().toLong() != expected) {
        corrupt(VECTORS, "expected $expected bytes. Received: ${bytes.capacity()}.")
    }
    bytes.order(ByteOrder.LITTLE_ENDIAN)
    val floats = bytes.asFloatBuffer()
    val row = FloatArray(features)
    repeat(pictures) {
        floats.get(row)
        // NaN is no length either.
        if (!(abs(lengthOf(row) - 1) < TOLERANCE)) corrupt(VECTORS, "expected rows of length 1.")
    }
    return floats
}

private fun lengthOf(row: FloatArray): Double {
    var sum = 0.0
    for (value in row) sum += value.toDouble() * value
    return sqrt(sum)
}

private fun BundleFiles.has(file: String): Boolean = try {
    open(file).close()
    true
} catch (_: FileNotFoundException) {
    false
} catch (_: IOException) {
    true // Who reads it tells more.
}

private fun bad(file: String, detail: String) =
    BundleException(BundleProblem.BadGallery(file, "$detail Index the pictures again."))

private const val TOLERANCE = 1e-3
private const val MOST_JSON = 32 shl 20
