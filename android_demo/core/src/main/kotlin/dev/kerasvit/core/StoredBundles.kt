package dev.kerasvit.core

import java.io.File
import java.io.IOException

/**
 * Bundles in a folder of the app's own, which are added from zips. For one thread at a time.
 *
 * @param folder nothing else may be in it; made with the first bundle
 */
class StoredBundles(private val folder: File) {
    /** In alphabetical order. */
    fun names(): List<String> = folder.list().orEmpty().filter { !it.startsWith('.') }.sorted()

    /** @throws IllegalArgumentException if there is no bundle of this name */
    fun files(name: String): BundleFiles = FolderFiles(folderOf(name))

    /**
     * Adds the bundle of a zip after it was checked, also the model's SHA-256; one of the same name
     * is replaced.
     *
     * @param zipName the file's name, after which the bundle is called if it has no folder in the
     *     zip: "flowers-int8.zip"
     * @return the bundle's name
     * @throws BundleException with the reason; then nothing was changed
     * @throws IOException if the folder cannot be written
     */
    fun add(zip: File, zipName: String): String {
        val unpacked = File(folder, UNPACKED)
        val replaced = File(folder, REPLACED)
        // The process may have ended while there was one.
        for (left in listOf(unpacked, replaced)) left.deleteRecursively()
        try {
            val called = unpackBundle(zip, unpacked).ifEmpty { zipName.removeSuffix(".zip") }
            check(FolderFiles(unpacked))
            val name = safeName(called)
            val place = File(folder, name)
            place.renameTo(replaced)
            if (!unpacked.renameTo(place)) {
                replaced.renameTo(place)
                throw IOException("$folder cannot be written")
            }
            return name
        } finally {
            unpacked.deleteRecursively()
            replaced.deleteRecursively()
        }
    }

    /** @throws IllegalArgumentException if there is no bundle of this name */
    fun remove(name: String) {
        folderOf(name).deleteRecursively()
    }

    private fun folderOf(name: String): File {
        require(name in names()) { "there is no bundle $name in $folder" }
        return File(folder, name)
    }
}

private fun check(files: BundleFiles) {
    val bundle = readBundle(files)
    readGolden(files, bundle)
    readModel(files, bundle.description)
}

private fun safeName(text: String): String = text.replace(Regex("[^\\p{L}\\p{N}._-]+"), "-")
    .trim('-', '.', '_').take(MOST_NAME).ifEmpty { "model" }

private const val UNPACKED = ".unpacked"
private const val REPLACED = ".replaced"
private const val MOST_NAME = 64
