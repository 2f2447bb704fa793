package dev.kerasvit.demo.source

import android.content.ContentResolver
import android.net.Uri
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
 */
class AddedBundles(
    folder: File,
    private val cache: File,
    private val resolver: ContentResolver,
    private val pushing: () -> File?,
) : Bundles {
    private val stored = StoredBundles(folder)

    override fun names(): List<String> = stored.names()

    override fun files(name: String): BundleFiles = stored.files(name)

    fun remove(name: String) {
        if (name in stored.names()) stored.remove(name)
    }

    /**
     * Adds the bundle in the zip of a content URI.
     *
     * @return the bundle's name
     * @throws AddingException with the reason
     */
    fun add(uri: Uri): String {
        val zip = File(cache, "added.zip")
        return adding(zip, name(uri)) {
            val from = resolver.openInputStream(uri) ?: throw FileNotFoundException("$uri")
            from.use { zip.outputStream().use(it::copyTo) }
        }
    }

    /** The zips that a computer pushed. */
    fun pushed(): List<File> =
        pushing()?.listFiles().orEmpty().filter { it.name.endsWith(".zip") }.sorted()

    /** As [add]; the zip is deleted in any case. */
    fun addPushed(zip: File): String = adding(zip, zip.name)

    private fun adding(zip: File, name: String, copy: () -> Unit = {}): String = try {
        copy()
        stored.add(zip, name)
    } catch (error: BundleException) {
        throw AddingException(name, error.problem)
    } catch (error: IOException) {
        throw AddingException(name, BundleProblem.BadZip(error.toString()))
    } catch (error: SecurityException) { // The other app no longer lets this one read.
        throw AddingException(name, BundleProblem.BadZip(error.toString()))
    } finally {
        zip.delete()
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

/** The zip of this name was not added. */
class AddingException(val zip: String, val problem: BundleProblem) :
    Exception("$zip: $problem")
