package dev.kerasvit.demo

import android.app.Application
import android.os.Build
import android.os.Handler
import android.os.HandlerThread
import android.os.Looper
import android.os.Process
import dev.kerasvit.core.Clock
import dev.kerasvit.core.StoredClasses
import dev.kerasvit.demo.screen.Colours
import dev.kerasvit.demo.screen.phoneColours
import dev.kerasvit.demo.source.AddedBundles
import dev.kerasvit.demo.source.AssetBundles
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.demo.source.Cameras
import dev.kerasvit.demo.source.Pictures
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.Store
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.work.Workshop
import dev.kerasvit.engine.EngineFactory
import java.io.File
import java.util.concurrent.Executor

/** In the app's files: what is remembered, and all that res/xml lets Android back up. */
const val SETTINGS_FILE = "datastore/settings.properties"

/** Holds what outlives the activity: the worker thread, the cameras and the [Store]. */
open class DemoApplication : Application() {
    /** The one thread that decodes, loads and computes; the camera's frames arrive on it too. */
    val worker: Handler by lazy { handler("worker") }

    /** Opens and closes cameras, which must not wait for the worker. */
    val cameraThread: Handler by lazy { handler("camera") }

    /** An activity that is made anew opens a camera which the one before it may still close. */
    val cameras: Cameras by lazy { Cameras(this, cameraThread, worker) }

    open val colours: Colours = phoneColours

    open val keptSettings: KeptSettings by lazy { KeptSettings(File(filesDir, SETTINGS_FILE)) }

    protected var store: Store? = null

    /** The store; a new one begins with [settings], which an earlier process saved. */
    fun store(settings: Settings?): Store = store ?: newStore(settings).also { store = it }

    override fun onTrimMemory(level: Int) {
        super.onTrimMemory(level)
        if (level >= TRIM_MEMORY_BACKGROUND) store?.send(Event.Sleep)
    }

    /** Tests run LiteRT on the JVM instead. */
    protected open fun engines(): EngineFactory = enginesOf(this)

    protected open fun clock(): Clock = Clock(System::nanoTime)

    protected open fun bundles(): Bundles = AssetBundles(assets)

    private fun addedBundles() = AddedBundles(
        File(filesDir, "models"),
        cacheDir,
        contentResolver,
        pushing = { getExternalFilesDir("models") },
    )

    // What is kept may be of an older phone, or of a photo that could be read only once.
    private fun readable(kept: Settings): Settings {
        val picture = kept.source as? Source.Picture ?: return kept
        val readable = contentResolver.persistedUriPermissions.map { it.uri.toString() }
        return if (picture.uri in readable) kept else kept.copy(source = null)
    }

    private fun newStore(settings: Settings?): Store {
        val main = Handler(Looper.getMainLooper())
        val engines = engines()
        val known = settings ?: keptSettings.read()?.let(::readable) ?: Settings()
        val initial = UiState(known, backends = engines.backends)
        val store = Store(initial) { publish ->
            Workshop(
                bundles(),
                addedBundles(),
                StoredClasses(File(filesDir, "classes")),
                Pictures(contentResolver),
                engines,
                device(),
                Executor { worker.post(it) },
                clock(),
            ) { event -> main.post { publish(event) } }
        }
        var kept = known.choices
        store.observe { state ->
            val choices = state.settings.choices
            if (choices != kept) keptSettings.write(choices)
            kept = choices
        }
        return store
    }
}

private fun handler(name: String): Handler {
    val thread = HandlerThread(name, Process.THREAD_PRIORITY_DEFAULT)
    thread.start()
    return Handler(thread.looper)
}

private fun device(): String =
    "${Build.MANUFACTURER} ${Build.MODEL}, Android ${Build.VERSION.RELEASE}"
