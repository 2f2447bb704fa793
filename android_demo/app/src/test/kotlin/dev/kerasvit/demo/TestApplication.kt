package dev.kerasvit.demo

import dev.kerasvit.core.Clock
import dev.kerasvit.demo.screen.Colours
import dev.kerasvit.demo.screen.ownColours
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.engine.EngineFactory
import java.io.File
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.job
import kotlinx.coroutines.joinAll
import kotlinx.coroutines.runBlocking

/** The app with LiteRT on the JVM, models of digits, and with what else a test sets. */
class TestApplication : DemoApplication() {
    var testEngines: EngineFactory? = null
    var testBundles: Bundles = FolderBundles(File("../testing/models"))
    var testClock: Clock? = null

    override fun engines(): EngineFactory = testEngines ?: jvmEngines()

    override fun bundles(): Bundles = testBundles

    override val colours: Colours = { ownColours(it) }

    override fun clock(): Clock = testClock ?: super.clock()

    override val keptSettings: KeptSettings
        get() = kept ?: KeptSettings(File(filesDir, SETTINGS_FILE), files).also { kept = it }
    private var kept: KeptSettings? = null
    private var files = CoroutineScope(Dispatchers.IO)

    /** The system ends the process: the next activity finds nothing in memory. */
    fun endProcess() {
        store = null
        files.finish()
        files = CoroutineScope(Dispatchers.IO)
        kept = null
    }
}

/** Waits for what was begun, which must not have failed, and ends this scope. */
fun CoroutineScope.finish() = runBlocking {
    val job = this@finish.coroutineContext.job
    job.children.toList().joinAll()
    check(job.isActive)
    job.cancelAndJoin()
}
