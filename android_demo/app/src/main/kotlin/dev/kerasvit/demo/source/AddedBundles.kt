package dev.kerasvit.demo.source

import android.content.ContentResolver
import android.net.Uri
import android.os.Build
import android.provider.OpenableColumns
import dev.kerasvit.core.BundleException
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.BundleProblem
import dev.kerasvit.core.StoredBundles
import java.io.File
import java.io.FileNotFoundException
import java.io.IOException

/**
 * The bundles that the user added, from zips. For the worker's thread.
 *
 * @param folder holds them, and nothing else
 * @param cache where another app's zip is copied to, because a zip is read from its end
 * @param pushing the folder to which `keras-vit android --push` writes; null if there is none
 * @param mostBytes of a zip: a model has at most 2 GiB
 */
class AddedBundles(
    folder: File,
    cache: File,
    private val resolver: ContentResolver,
    private val pushing: () -> File?,
    private val mostBytes: Long = 3L shl 30,
) : Bundles {
    private val stored = StoredBundles(folder)
    private val copies = File(cache, "zips")

    override fun names(): List<String> = stored.names()

    override fun files(name: String): BundleFiles = stored.files(name)

    fun remove(name: String) {
        if (name in stored.names()) stored.remove(name)
    }

    /**
     * A copy of another app's zip, for [add].
     *
     * @return null if it was no longer wanted before its end
     * @throws AddingException with the reason
     */
    fun copy(uri: Uri, isWanted: () -> Boolean): Zip? {
        val name = askWhile(isWanted) { name(uri) } ?: return null
        copies.deleteRecursively() // The process may have ended while one was written.
        copies.mkdirs()
        // Another name each time: who is no longer waited for may still write.
        val zip = Zip(File.createTempFile("added", ".zip", copies), name)
        var isWhole = false
        try {
            val copied = telling(name) { askWhile(isWanted) { copy(uri, zip.file, isWanted) } }
            isWhole = copied == true && isWanted()
        } finally {
            if (!isWhole) zip.file.delete()
        }
        return zip.takeIf { isWhole }
    }

    /** The zips that a computer pushed. */
    fun pushed(): List<Zip> = pushing()?.listFiles().orEmpty()
        .filter { it.name.endsWith(".zip") }.sorted().map { Zip(it, it.name) }

    /** Whether only a computer can push: before Android 11, other apps can write there, too. */
    val arePushedTrusted: Boolean = Build.VERSION.SDK_INT >= Build.VERSION_CODES.R

    /**
     * Adds the bundle in a zip, which is deleted in any case.
     *
     * @return the bundle's name
     * @throws AddingException with the reason
     */
    fun add(zip: Zip): String = try {
        telling(zip.name) { stored.add(zip.file, zip.name) }
    } finally {
        zip.file.delete()
    }

    private fun <T> telling(zip: String, action: () -> T): T = try {
        action()
    } catch (error: BundleException) {
        throw AddingException(zip, error.problem)
    } catch (error: IOException) {
        throw AddingException(zip, BundleProblem.BadZip(error.toString()))
    } catch (error: SecurityException) { // The other app no longer lets this one read.
        throw AddingException(zip, BundleProblem.BadZip(error.toString()))
    }

    /** Whether all of it was copied before it was no longer wanted. */
    private fun copy(uri: Uri, to: File, isWanted: () -> Boolean): Boolean =
        to.outputStream().use { output ->
            val opened = resolver.openInputStream(uri) ?: throw FileNotFoundException("$uri")
            opened.use { input ->
                val bytes = ByteArray(1 shl 16)
                var left = mostBytes
                while (isWanted()) {
                    val count = input.read(bytes)
                    if (count < 0) return true
                    left -= count
                    if (left < 0) throw IOException("larger than $mostBytes bytes")
                    output.write(bytes, 0, count)
                }
                false
            }
        }

    private fun name(uri: Uri): String {
        val columns = arrayOf(OpenableColumns.DISPLAY_NAME)
        val name = try {
            resolver.query(uri, columns, null, null, null)?.use {
                if (it.moveToFirst()) it.getString(0) else null
            }
        } catch (_: SecurityException) {
            null
        }
        return name ?: uri.lastPathSegment.orEmpty()
    }
}

/** A zip, and what its user calls it. */
class Zip(val file: File, val name: String)

/** The zip of this name was not added. */
class AddingException(val zip: String, val problem: BundleProblem) :
    Exception("$zip: $problem")
