package dev.kerasvit.android

import android.content.res.AssetManager
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.SAMPLES
import dev.kerasvit.core.isSample
import dev.kerasvit.core.moveTo
import java.io.FileInputStream
import java.io.FileNotFoundException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.nio.channels.FileChannel

/** The bundle in `assets/bundles/NAME`. */
class AssetFiles(private val assets: AssetManager, override val name: String) : BundleFiles {
    override fun open(file: String): InputStream = assets.open("$BUNDLES/$name/$file")

    override fun map(file: String): ByteBuffer {
        // Without a copy: builds store models uncompressed. One that did not has no file descriptor
        // for it.
        val descriptor = try {
            assets.openFd("$BUNDLES/$name/$file")
        } catch (_: FileNotFoundException) {
            return copy(file)
        }
        return descriptor.use {
            FileInputStream(it.fileDescriptor).channel
                .map(FileChannel.MapMode.READ_ONLY, it.startOffset, it.declaredLength)
                .order(ByteOrder.nativeOrder())
        }
    }

    override fun samples(): List<String> = assets.list("$BUNDLES/$name/$SAMPLES").orEmpty()
        .filter(::isSample).sorted()

    private fun copy(file: String): ByteBuffer {
        val bytes = open(file).use { it.readBytes() }
        val buffer = ByteBuffer.allocateDirect(bytes.size).order(ByteOrder.nativeOrder())
        buffer.put(bytes)
        buffer.moveTo(0)
        return buffer
    }
}

/** The names of the bundles in `assets/bundles`, in alphabetical order. */
// Robolectric lists "digits-int8/model.json" where a phone lists "digits-int8".
fun bundleNames(assets: AssetManager): List<String> =
    assets.list(BUNDLES).orEmpty().map { it.substringBefore('/') }.distinct().sorted()

private const val BUNDLES = "bundles"
