package dev.kerasvit.demo

import dev.kerasvit.core.BundleFiles
import dev.kerasvit.demo.source.Bundles
import java.io.File
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder

/** Bundles in an ordinary folder, which a test can damage. */
class FolderBundles(private val folder: File) : Bundles {
    override fun names(): List<String> = folder.list().orEmpty().sorted()

    override fun files(name: String): BundleFiles = object : BundleFiles {
        override val name = name

        override fun open(file: String): InputStream = File(folder, "$name/$file").inputStream()

        override fun map(file: String): ByteBuffer {
            val bytes = open(file).use { it.readBytes() }
            val buffer = ByteBuffer.allocateDirect(bytes.size).order(ByteOrder.nativeOrder())
            buffer.put(bytes)
            buffer.rewind()
            return buffer
        }
    }
}

/** A copy of one of the app's own bundles. */
fun copyOfBundle(folder: File, name: String = "digits-int8"): File {
    val copy = File(folder, name)
    File("src/main/assets/bundles/$name").copyRecursively(copy)
    return copy
}
