package dev.kerasvit.demo

import android.app.ActivityOptions
import android.content.Intent
import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Insets
import android.graphics.Rect
import android.os.Build
import android.os.Bundle
import android.os.Looper
import android.view.Display
import android.view.View
import android.view.WindowInsets
import android.view.inspector.WindowInspector
import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.semantics.SemanticsNode
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.semantics.getOrNull
import androidx.compose.ui.test.SemanticsMatcher
import androidx.compose.ui.test.hasSetTextAction
import androidx.compose.ui.test.hasText
import androidx.compose.ui.test.junit4.ComposeTestRule
import androidx.compose.ui.test.junit4.v2.createEmptyComposeRule
import androidx.compose.ui.test.performTextReplacement
import dev.kerasvit.demo.source.AssetBundles
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.UiState
import java.io.File
import org.junit.rules.TestRule
import org.robolectric.Robolectric
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.android.controller.ActivityController

/** The app as a user holds it: starts it, touches what is on the screen, reads it, looks at it. */
class Phone(val rule: ComposeTestRule = createEmptyComposeRule()) : TestRule by rule {
    val app = RuntimeEnvironment.getApplication() as TestApplication
    var display = Display.DEFAULT_DISPLAY
    lateinit var controller: ActivityController<MainActivity>
        private set

    val activity: MainActivity get() = controller.get()
    val state: UiState get() = app.store(null).state

    /** With the models that the app is built with, of photographs. */
    fun withAppModels() = apply { app.testBundles = AssetBundles(app.assets) }

    /** With a classifier from a list of words, several of which can be right. */
    fun withWords() = apply { app.testBundles = FolderBundles(File("../testing/words")) }

    /** With a model of features, and a gallery of digits. */
    fun withFeatures() = apply { app.testBundles = FolderBundles(File("../testing/features")) }

    /** With a model that gives the features of each patch of a digit. */
    fun withFeatureMaps() =
        apply { app.testBundles = FolderBundles(File("../testing/feature_maps")) }

    fun start(saved: Bundle? = null, intent: Intent? = null): Phone {
        create(saved, intent)
        settle()
        return this
    }

    /** As [start], without waiting for the worker. */
    fun create(saved: Bundle? = null, intent: Intent? = null) {
        // Two threads wait for each other where several tests share the processor.
        if (saved == null) app.store(app.keptSettings.read() ?: Settings(threads = 1))
        val options = ActivityOptions.makeBasic().setLaunchDisplayId(display).toBundle()
        controller = Robolectric.buildActivity(MainActivity::class.java, intent, options)
        if (saved == null) controller.setup() else controller.setup(saved)
    }

    /** As after a change of the configuration: the activity is made anew, the process lives on. */
    fun recreate() = start(leave())

    /** Leaves the app; the system ends its process, and later starts it as the user left it. */
    fun returnAfterEnd() {
        val saved = leave()
        app.endProcess()
        start(saved)
    }

    /** What the system keeps of the activity. */
    fun leave(): Bundle {
        val saved = Bundle()
        controller.pause().stop().saveInstanceState(saved).destroy()
        return saved
    }

    fun send(event: Event) {
        app.store(null).send(event)
        settle()
    }

    /** Waits until the worker and the main thread have nothing to do. */
    fun settle() {
        repeat(4) {
            shadowOf(app.worker.looper).idle()
            shadowOf(app.cameraThread.looper).idle()
            shadowOf(Looper.getMainLooper()).idle()
        }
        draw()
    }

    /** As [settle], while the worker is busy. */
    fun draw() {
        // The status bar and the navigation bar of a phone, which Robolectric does not have. Before
        // Android 11, androidx moves them bit by bit, and Robolectric takes them back meanwhile.
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) {
            activity.window.decorView.dispatchApplyWindowInsets(insets())
        }
        shadowOf(Looper.getMainLooper()).idle()
        rule.waitForIdle()
    }

    /** The places of the system's bars. */
    val bars: Rect
        get() {
            val density = activity.resources.displayMetrics.density
            return Rect(0, (28 * density).toInt(), 0, (20 * density).toInt())
        }

    private fun insets(): WindowInsets = WindowInsets.Builder()
        .setInsets(WindowInsets.Type.statusBars(), Insets.of(0, bars.top, 0, 0))
        .setInsets(WindowInsets.Type.navigationBars(), Insets.of(0, 0, 0, bars.bottom))
        .build()

    /** All that is on the screen; also what scrolling would show. */
    fun nodes(): List<SemanticsNode> =
        rule.onAllNodes(SemanticsMatcher("any") { true }, useUnmergedTree = true)
            .fetchSemanticsNodes()

    fun texts(): List<String> = nodes().flatMap { it.texts }

    fun shows(text: String): Boolean = texts().any { text in it }

    fun shows(id: Int, vararg values: Any): Boolean = shows(activity.getString(id, *values))

    /** Touches the first thing that has this text, or that TalkBack calls so. */
    fun tap(text: String) {
        touch(text)
        settle()
    }

    fun tap(id: Int) = tap(activity.getString(id))

    /** As [tap], without waiting for the worker. */
    fun touch(text: String) {
        val target = nodes().filter { text in it.texts }.firstNotNullOfOrNull(::clickOf)
        checkNotNull(target) { "nothing that can be touched is called \"$text\": ${texts()}" }
        rule.runOnUiThread { target() }
    }

    private fun clickOf(node: SemanticsNode): (() -> Boolean)? =
        generateSequence(node) { it.parent }.firstNotNullOfOrNull {
            it.config.getOrNull(SemanticsActions.OnClick)?.action
        }

    /** Pulls the sheet with the result up, or down again. */
    fun pullSheet() {
        val pulls = listOf(SemanticsActions.Expand, SemanticsActions.Collapse)
        val pull = nodes().firstNotNullOf { node ->
            pulls.firstNotNullOfOrNull { node.config.getOrNull(it) }
        }
        rule.runOnUiThread { pull.action!!() }
        settle()
    }

    fun goBack() {
        rule.runOnUiThread { activity.onBackPressedDispatcher.onBackPressed() }
        settle()
    }

    fun write(text: String) = write(text, hasSetTextAction())

    /** Writes into the field of this name. */
    fun write(text: String, id: Int) =
        write(text, hasSetTextAction() and hasText(activity.getString(id)))

    private fun write(text: String, field: SemanticsMatcher) {
        rule.onNode(field).performTextReplacement(text)
        settle()
    }

    fun screenshot(name: String) = write(name, picture())

    fun picture(): Bitmap {
        val decor = activity.window.decorView
        val bitmap = Bitmap.createBitmap(decor.width, decor.height, Bitmap.Config.ARGB_8888)
        for (window in windows()) {
            val canvas = Canvas(bitmap)
            // Robolectric puts dialogs into a corner.
            canvas.translate((decor.width - window.width) / 2f, (decor.height - window.height) / 2f)
            window.draw(canvas)
        }
        return bitmap
    }

    // Sheets and dialogs are windows of their own.
    private fun windows(): List<View> =
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.Q) WindowInspector.getGlobalWindowViews()
        else listOf(activity.window.decorView)

    fun write(name: String, bitmap: Bitmap) {
        val folder = File(System.getProperty("screenshots") ?: "target/screenshots")
        folder.mkdirs()
        File(folder, "$name.png").outputStream().use {
            bitmap.compress(Bitmap.CompressFormat.PNG, 100, it)
        }
    }
}

/** What is read of a node, and what TalkBack says of it. */
val SemanticsNode.texts: List<String>
    get() = config.getOrNull(SemanticsProperties.Text).orEmpty().map { it.text } +
        listOfNotNull(config.getOrNull(SemanticsProperties.EditableText)?.text) +
        config.getOrNull(SemanticsProperties.ContentDescription).orEmpty()
