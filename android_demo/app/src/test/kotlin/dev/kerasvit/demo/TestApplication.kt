package dev.kerasvit.demo

import dev.kerasvit.core.Clock
import dev.kerasvit.demo.screen.Colours
import dev.kerasvit.demo.screen.ownColours
import dev.kerasvit.demo.source.AssetBundles
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.engine.EngineFactory

/** The app with LiteRT on the JVM, and with what else a test sets. */
class TestApplication : DemoApplication() {
    var testEngines: EngineFactory? = null
    var testBundles: Bundles? = null
    var testClock: Clock? = null

    override fun engines(): EngineFactory = testEngines ?: jvmEngines()

    override fun bundles(): Bundles = testBundles ?: AssetBundles(assets)

    override val colours: Colours = { ownColours(it) }

    override fun clock(): Clock = testClock ?: super.clock()

    /** The system ends the process: the next activity finds nothing in memory. */
    fun endProcess() {
        store = null
    }
}
