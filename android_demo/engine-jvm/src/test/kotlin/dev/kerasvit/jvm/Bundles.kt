package dev.kerasvit.jvm

import dev.kerasvit.core.FolderFiles
import java.io.File

/** The bundles of the app, or of the folder in the system property "bundles". */
val bundleFolders: List<File> by lazy {
    val folder = File(System.getProperty("bundles") ?: "../app/src/main/assets/bundles")
    val folders = folder.listFiles { file -> File(file, "model.json").isFile }.orEmpty().sorted()
    check(folders.isNotEmpty()) { "no bundle in $folder" }
    folders
}

/** One of the app's bundles, whatever the system property says. */
fun appBundle(name: String) = FolderFiles(File("../app/src/main/assets/bundles", name))
