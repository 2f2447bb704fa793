package dev.kerasvit.demo.source

import android.content.res.AssetManager
import dev.kerasvit.android.AssetFiles
import dev.kerasvit.android.bundleNames
import dev.kerasvit.core.BundleFiles

/** Where bundles are. */
interface Bundles {
    /** In alphabetical order. */
    fun names(): List<String>

    fun files(name: String): BundleFiles
}

/** The folders in `assets/bundles`, which `keras-vit android` fills. */
class AssetBundles(private val assets: AssetManager) : Bundles {
    override fun names(): List<String> = bundleNames(assets)

    override fun files(name: String): BundleFiles = AssetFiles(assets, name)
}

/** Those of the app, and those that were [added], which hide others of the same name. */
class AllBundles(private val ofApp: Bundles, private val added: Bundles) : Bundles {
    override fun names(): List<String> = (ofApp.names() + added.names()).distinct().sorted()

    override fun files(name: String): BundleFiles =
        if (name in added.names()) added.files(name) else ofApp.files(name)
}
