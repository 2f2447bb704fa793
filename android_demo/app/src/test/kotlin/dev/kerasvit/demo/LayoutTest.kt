package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.Canvas
import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.EditText
import android.widget.ImageButton
import android.widget.ListView
import android.widget.RadioButton
import android.widget.ScrollView
import android.widget.SeekBar
import android.widget.TextView
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import kotlin.math.abs
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment

/** What must hold on every screen, in every form of the phone. */
@RunWith(RobolectricTestRunner::class)
class LayoutTest {
    private val phone = Phone()
    private val layout = Layout(phone)

    @Test
    fun `nothing is cut off in large letters in Chinese`() =
        onEveryScreen("+zh-rCN", 2f, layout::checkTexts)

    @Test
    fun `nothing is cut off on a tablet from right to left`() =
        onEveryScreen("+ldrtl-w800dp-h1200dp", 2f, layout::checkTexts)

    @Test
    fun `nothing lies under the bars of the system`() = onEveryScreen("+port", 1f) { form ->
        val density = phone.activity.resources.displayMetrics.density
        val root = phone.activity.findViewById<View>(R.id.root)
        assertEquals((28 * density).toInt(), root.paddingTop, form)
        val navigation = phone.activity.findViewById<View>(R.id.navigation)
        assertTrue(navigation.paddingBottom >= 20 * density, form)
    }

    @Test
    fun `in landscape, content scrolls to the window's edge and ends above the system's bar`() =
        onEveryScreen("+w891dp-h411dp-land", 1f) { form ->
            val density = phone.activity.resources.displayMetrics.density
            val window = phone.activity.window.decorView.height
            for (view in phone.views().filter { it is ScrollView || it is ListView }) {
                val group = view as ViewGroup
                assertEquals(window, top(group) + group.height, "$form: it ends at a bar")
                assertFalse(group.clipToPadding, "$form: what scrolls is cut off at a bar")
                scrollToEnd(group)
                val last = group.getChildAt(group.childCount - 1)
                val end = top(last) + last.height
                assertTrue(end <= window - (20 * density).toInt(), "$form: $end of $window")
            }
        }

    private fun scrollToEnd(group: ViewGroup) {
        if (group is ListView) {
            repeat(20) { group.scrollListBy(group.height / 2) }
            assertEquals(group.count - 1, group.lastVisiblePosition)
        } else {
            group.scrollTo(0, group.getChildAt(0).height)
        }
    }

    private fun top(view: View): Int = IntArray(2).also(view::getLocationInWindow)[1]

    @Test
    fun `the picture leaves room for what is said of it`() {
        for (qualifiers in listOf("+port", "+w891dp-h411dp-land", "+w1000dp-h700dp-land")) {
            RuntimeEnvironment.setQualifiers(qualifiers)
            phone.app.endProcess()
            phone.start()
            val height = phone.activity.findViewById<View>(R.id.picture_frame).height
            val window = phone.activity.resources.displayMetrics.heightPixels
            assertTrue(height <= window * 4 / 10, "$qualifiers: $height of $window")
            assertTrue(height >= window * 2 / 10, "$qualifiers: $height of $window")
        }
    }

    @Test
    fun `what can be tapped is a button, a choice or a field for TalkBack`() {
        val roles = listOf(
            Button::class, ImageButton::class, RadioButton::class, SeekBar::class, EditText::class,
        ).map { it.java.name }
        onEveryScreen("+port", 1f) { form ->
            for (view in phone.views().filter { it.isClickable && it !is ListView }) {
                val role = view.createAccessibilityNodeInfo().className
                assertTrue(role in roles, "$form: ${describe(view)} is a $role")
            }
        }
    }

    @Test
    fun `TalkBack finds nothing that nobody sees`() = onEveryScreen("+port", 1f) { form ->
        val density = phone.activity.resources.displayMetrics.density
        for (view in phone.views().filter { it.isShown && it.contentDescription != null }) {
            assertTrue(view.height >= 16 * density, "$form: ${describe(view)}")
        }
    }

    @Test
    fun `a line is drawn between labels`() {
        phone.start()
        phone.tap(R.string.screen_labels)
        val list = phone.activity.findViewById<ListView>(R.id.labels)
        val drawn = Bitmap.createBitmap(list.width, list.height, Bitmap.Config.ARGB_8888)
        list.draw(Canvas(drawn))
        val colour = phone.activity.getColor(R.color.hairline)
        val lines = (0 until list.height).filter { drawn.getPixel(list.width / 2, it) == colour }
        for (row in 1 until list.childCount) {
            val top = list.getChildAt(row).top
            assertTrue(lines.any { abs(it - top) <= 3 }, "no line above row $row at $top: $lines")
        }
    }

    private fun onEveryScreen(qualifiers: String, fontScale: Float, check: (form: String) -> Unit) {
        RuntimeEnvironment.setQualifiers(qualifiers)
        RuntimeEnvironment.setFontScale(fontScale)
        phone.app.testEngines = RefusingEngines(Backend.GPU, EngineFailure.REFUSED, "a reason")
        phone.start()
        for (screen in Screen.values()) {
            send(Event.Show(screen))
            if (screen == Screen.VERIFY) send(Event.Verify)
            check("$screen, $qualifiers, letters x $fontScale")
        }
        send(Event.Show(Screen.CLASSIFY))
        for (problem in allProblems) {
            send(Event.SourceFailed(phone.state.settings.source!!, problem))
            check("$problem, $qualifiers, letters x $fontScale")
        }
    }

    private fun send(event: Event) {
        phone.app.store(null).send(event)
        phone.settle()
    }
}
