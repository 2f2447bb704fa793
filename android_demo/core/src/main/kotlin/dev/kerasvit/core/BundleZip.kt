package dev.kerasvit.core

import java.io.File
import java.io.IOException
import java.util.zip.CRC32
import java.util.zip.CheckedInputStream
import java.util.zip.ZipEntry
import java.util.zip.ZipFile

/**
 * Unpacks the one bundle of a zip, as `keras-vit android --zip` writes it or as people zip a
 * folder: its files are at the top or in a folder. Of other files, nothing is unpacked. What is in
 * them is not checked.
 *
 * @param folder where the files go; made if it does not exist
 * @return the name of the zip's folder with the bundle; "" at the top
 * @throws BundleException if this is no zip, a damaged one, one without a bundle or with several,
 *     or too large
 */
internal fun unpackBundle(zip: File, folder: File): String = try {
    ZipFile(zip).use { unpack(it, folder) }
} catch (error: IOException) {
    throw BundleException(BundleProblem.BadZip(error.message ?: error.javaClass.simpleName))
} catch (error: IllegalArgumentException) { // Of names that are not in UTF-8.
    throw BundleException(BundleProblem.BadZip(error.message ?: error.javaClass.simpleName))
}

private fun unpack(zip: ZipFile, folder: File): String {
    val parts = zip.entries().asSequence().mapNotNull(::partOf).toList()
    val places = parts.filter { it.file == MODEL_JSON }.map { it.place }.distinct()
    if (places.isEmpty()) throw BundleException(BundleProblem.NoBundle)
    val place = places.singleOrNull() ?: throw BundleException(BundleProblem.Several(places))
    val wanted = parts.filter { it.place == place }
    checkSize(wanted, folder)
    for (part in wanted) write(zip, part, folder)
    return place.substringAfterLast('/')
}

/** A file of a bundle: of "runs/int8/samples/a.png", [place] is "runs/int8". */
private class Part(val entry: ZipEntry, val place: String, val file: String)

private fun partOf(entry: ZipEntry): Part? {
    val steps = entry.name.split('/')
    val isInFolder = when (steps.getOrNull(steps.size - 2)) {
        SAMPLES -> isSample(steps.last())
        GALLERY -> isOfGallery(steps.last())
        else -> false
    }
    if (!isInFolder && steps.last() !in BUNDLE_FILES) return null
    val length = if (isInFolder) 2 else 1
    val (place, file) = listOf(steps.dropLast(length), steps.takeLast(length))
    return Part(entry, place.joinToString("/"), file.joinToString("/"))
}

private fun checkSize(parts: List<Part>, folder: File) {
    val samples = parts.count { it.file.startsWith("$SAMPLES/") }
    if (samples > MOST_SAMPLES) corrupt(SAMPLES, "expected at most $MOST_SAMPLES pictures.")
    if (parts.size - samples > BUNDLE_FILES.size + MOST_PICTURES + 2) {
        corrupt(GALLERY, "expected at most $MOST_PICTURES pictures.")
    }
    for (part in parts) {
        val isLarge = part.file == MODEL || part.file == VECTORS
        val most = if (isLarge) Int.MAX_VALUE.toLong() else MOST_GOLDEN.toLong()
        val size = part.entry.size
        if (size > most) corrupt(part.file, "expected at most $most bytes. Received: $size.")
    }
    folder.mkdirs()
    val (needed, free) = parts.sumOf { it.entry.size } to folder.usableSpace
    if (needed > free) throw BundleException(BundleProblem.NoSpace(needed, free))
}

// The size that a zip states may be wrong, and Java's ZipFile does not check what it reads.
private fun write(zip: ZipFile, part: Part, folder: File) {
    val checksum = CRC32()
    val to = File(folder, part.file)
    checkNotNull(to.parentFile).mkdirs()
    var left = part.entry.size
    CheckedInputStream(zip.getInputStream(part.entry), checksum).use { input ->
        to.outputStream().use { output ->
            val bytes = ByteArray(1 shl 16)
            while (true) {
                val count = input.read(bytes)
                if (count < 0) break
                left -= count
                if (left < 0) break
                output.write(bytes, 0, count)
            }
        }
    }
    if (left != 0L || checksum.value != part.entry.crc) {
        throw BundleException(BundleProblem.BadZip("${part.file} is damaged"))
    }
}

private const val MOST_SAMPLES = 64
