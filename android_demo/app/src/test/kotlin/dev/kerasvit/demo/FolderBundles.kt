package dev.kerasvit.demo

import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.demo.source.Bundles
import java.io.File

/** Bundles in an ordinary folder, which a test can damage. */
class FolderBundles(private val folder: File) : Bundles {
    override fun names(): List<String> = folder.list().orEmpty().sorted()

    override fun files(name: String): BundleFiles = FolderFiles(File(folder, name))
}

/** A copy of one of the app's own bundles. */
fun copyOfBundle(folder: File, name: String = "digits-int8"): File {
    val copy = File(folder, name)
    File("../testing/models/$name").copyRecursively(copy)
    return copy
}
