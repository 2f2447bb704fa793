package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Insets
import android.graphics.Rect
import android.os.Build
import android.os.Bundle
import android.os.Looper
import android.view.View
import android.view.ViewGroup
import android.view.WindowInsets
import android.widget.TextView
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.UiState
import java.io.File
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController
import org.robolectric.util.ReflectionHelpers
import org.robolectric.util.ReflectionHelpers.ClassParameter

/** The app as a user holds it: starts it, touches what is on the screen, reads it, looks at it. */
class Phone {
    val app = RuntimeEnvironment.getApplication() as TestApplication
    lateinit var controller: ActivityController<MainActivity>
        private set

    val activity: MainActivity get() = controller.get()
    val state: UiState get() = app.store(null).state
    private val root: View get() = activity.findViewById(R.id.root)

    fun start(saved: Bundle? = null): Phone {
        create(saved)
        settle()
        return this
    }

    /** As [start], without waiting for the worker. */
    fun create(saved: Bundle? = null) {
        // Two threads wait for each other where several tests share the processor.
        if (saved == null) app.store(Settings(threads = 1))
        controller = Robolectric.buildActivity(MainActivity::class.java)
        if (saved == null) controller.setup() else controller.setup(saved)
    }

    /** As after a change of the configuration: the activity is made anew, the process lives on. */
    fun recreate() {
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved).destroy()
        start(saved)
    }

    /** Waits until the worker and the main thread have nothing to do. */
    fun settle() {
        repeat(4) {
            shadowOf(app.worker.looper).idle()
            shadowOf(Looper.getMainLooper()).idle()
        }
        draw()
    }

    /** As [settle], while the worker is busy. */
    fun draw() {
        // The status bar and the navigation bar of a phone, which Robolectric does not have.
        val density = activity.resources.displayMetrics.density
        val bars = Rect(0, (28 * density).toInt(), 0, (20 * density).toInt())
        root.dispatchApplyWindowInsets(
            if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) insets(bars) else oldInsets(bars),
        )
        shadowOf(Looper.getMainLooper()).idle()
    }

    /** All that is on the screen, from top to bottom; also what scrolling would show. */
    fun views(): List<View> = shown(activity.window.decorView)

    fun texts(): List<String> =
        views().filterIsInstance<TextView>().map { it.text.toString() }.filter { it.isNotEmpty() }

    fun shows(text: String): Boolean = texts().any { text in it }

    fun shows(id: Int, vararg values: Any): Boolean = shows(activity.getString(id, *values))

    /** Touches the first thing that has this text, or that TalkBack calls so. */
    fun tap(text: String) {
        val view = views().firstOrNull {
            (it as? TextView)?.text?.toString() == text || it.contentDescription?.toString() == text
        }
        checkNotNull(view) { "nothing on the screen is called \"$text\": ${texts()}" }
        generateSequence(view) { it.parent as? View }
            .first { it.hasOnClickListeners() }
            .performClick()
        settle()
    }

    fun tap(id: Int) = tap(activity.getString(id))

    /** Leaves the app; the system ends its process, and later starts it as the user left it. */
    fun returnAfterEnd() {
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved).destroy()
        app.endProcess()
        start(saved)
    }

    fun screenshot(name: String) = write(name, picture())

    fun picture(): Bitmap {
        // On a phone they fade away after a moment.
        views().forEach { it.isVerticalScrollBarEnabled = false }
        val decor = activity.window.decorView
        val bitmap = Bitmap.createBitmap(decor.width, decor.height, Bitmap.Config.ARGB_8888)
        decor.draw(Canvas(bitmap))
        return bitmap
    }

    fun write(name: String, bitmap: Bitmap) {
        val folder = File(System.getProperty("screenshots") ?: "target/screenshots")
        folder.mkdirs()
        File(folder, "$name.png").outputStream().use {
            bitmap.compress(Bitmap.CompressFormat.PNG, 100, it)
        }
    }

    private fun shown(view: View): List<View> {
        if (view.visibility != View.VISIBLE) return emptyList()
        if (view !is ViewGroup) return listOf(view)
        return listOf(view) + (0 until view.childCount).flatMap { shown(view.getChildAt(it)) }
    }
}

private fun insets(bars: Rect): WindowInsets =
    WindowInsets.Builder().setInsets(WindowInsets.Type.systemBars(), Insets.of(bars)).build()

// Before Android 10 only the system makes insets, with a constructor that apps do not see.
private fun oldInsets(bars: Rect): WindowInsets =
    ReflectionHelpers.callConstructor(
        WindowInsets::class.java,
        ClassParameter.from(Rect::class.java, bars),
    )
