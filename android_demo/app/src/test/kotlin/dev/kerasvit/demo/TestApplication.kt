package dev.kerasvit.demo

import dev.kerasvit.core.EngineFactory
import dev.kerasvit.demo.source.AssetBundles
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.jvm.JvmEngines

/** The app with the JVM's TensorFlow Lite, and with other bundles where a test sets some. */
class TestApplication : DemoApplication() {
    var testEngines: EngineFactory = JvmEngines()
    var testBundles: Bundles? = null

    override fun engines(): EngineFactory = testEngines

    override fun bundles(): Bundles = testBundles ?: AssetBundles(assets)

    /** The system ends the process: the next activity finds nothing in memory. */
    fun endProcess() {
        store = null
    }
}
