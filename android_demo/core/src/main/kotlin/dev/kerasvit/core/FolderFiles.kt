package dev.kerasvit.core

import java.io.File
import java.io.FileInputStream
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.channels.FileChannel

/** A bundle in a folder. */
class FolderFiles(private val folder: File) : BundleFiles {
    override val name: String = folder.name

    override fun open(file: String): InputStream = File(folder, file).inputStream()

    override fun map(file: String): ByteBuffer = FileInputStream(File(folder, file)).channel.use {
        it.map(FileChannel.MapMode.READ_ONLY, 0, it.size())
    }

    override fun samples(): List<String> =
        File(folder, SAMPLES).list().orEmpty().filter(::isSample).sorted()
}
