package dev.kerasvit.demo

import dev.kerasvit.core.Clock
import dev.kerasvit.demo.screen.Colours
import dev.kerasvit.demo.screen.ownColours
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.engine.EngineFactory
import java.io.File

/** The app with LiteRT on the JVM, models of digits, and with what else a test sets. */
class TestApplication : DemoApplication() {
    var testEngines: EngineFactory? = null
    var testBundles: Bundles = FolderBundles(File("../testing/models"))
    var testClock: Clock? = null

    override fun engines(): EngineFactory = testEngines ?: jvmEngines()

    override fun bundles(): Bundles = testBundles

    override val colours: Colours = { ownColours(it) }

    override fun clock(): Clock = testClock ?: super.clock()

    /** The system ends the process: the next activity finds nothing in memory. */
    fun endProcess() {
        store = null
    }
}
