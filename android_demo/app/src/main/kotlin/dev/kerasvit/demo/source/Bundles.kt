package dev.kerasvit.demo.source

import android.content.res.AssetManager
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.moveTo
import java.io.FileInputStream
import java.io.FileNotFoundException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** Where bundles are. */
interface Bundles {
    /** In alphabetical order. */
    fun names(): List<String>

    fun files(name: String): BundleFiles
}

/** The folders in `assets/bundles`, which `keras-vit android` fills. */
class AssetBundles(private val assets: AssetManager) : Bundles {
    // Robolectric lists "digits-int8/model.json" where a phone lists "digits-int8".
    override fun names(): List<String> =
        assets.list(FOLDER).orEmpty().map { it.substringBefore('/') }.distinct().sorted()

    override fun files(name: String): BundleFiles = AssetBundleFiles(assets, name)
}

private class AssetBundleFiles(private val assets: AssetManager, override val name: String) :
    BundleFiles {
    override fun open(file: String): InputStream = assets.open("$FOLDER/$name/$file")

    override fun map(file: String): ByteBuffer {
        // Without a copy: the build stores models uncompressed. A build that forgot to would have
        // no file descriptor for it.
        val descriptor = try {
            assets.openFd("$FOLDER/$name/$file")
        } catch (_: FileNotFoundException) {
            return copy(file)
        }
        return descriptor.use {
            FileInputStream(it.fileDescriptor).channel
                .map(FileChannel.MapMode.READ_ONLY, it.startOffset, it.declaredLength)
                .order(ByteOrder.nativeOrder())
        }
    }

    private fun copy(file: String): ByteBuffer {
        val bytes = open(file).use { it.readBytes() }
        val buffer = ByteBuffer.allocateDirect(bytes.size).order(ByteOrder.nativeOrder())
        buffer.put(bytes)
        buffer.moveTo(0)
        return buffer
    }
}

private const val FOLDER = "bundles"
