package dev.kerasvit.demo

import android.graphics.Rect
import android.view.View
import android.view.ViewGroup
import android.widget.EditText
import android.widget.FrameLayout
import android.widget.HorizontalScrollView
import android.widget.ListView
import android.widget.TextView
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertTrue

/** Checks of what is on a phone's screen. Each [form] in a message says in which form the phone is. */
class Layout(private val phone: Phone) {
    /** Text is whole if its lines fit into the view, none ends in dots, and no word is broken. */
    fun checkTexts(form: String) {
        for (view in phone.views().filterIsInstance<TextView>()) {
            val layout = view.layout ?: continue
            if (view.text.isEmpty()) continue
            val place = "$form: ${describe(view)}"
            val room = view.height - view.compoundPaddingTop - view.compoundPaddingBottom
            val isWhole = layout.height <= room + 1 || view is EditText
            assertTrue(isWhole, "$place: ${layout.height} > $room")
            val width = view.width - view.compoundPaddingLeft - view.compoundPaddingRight
            for (line in 0 until layout.lineCount) {
                assertEquals(0, layout.getEllipsisCount(line), place)
                assertTrue(layout.getLineMax(line) <= width + 1, "$place: line $line is too wide")
            }
            assertTrue(isInWindow(view), "$place is wider than the window")
        }
    }

    /** Views lie inside their parents, and neighbours do not overlap. */
    fun checkPlaces(form: String) {
        for (group in phone.views().filterIsInstance<ViewGroup>()) {
            val children = (0 until group.childCount).map(group::getChildAt)
                .filter { it.visibility == View.VISIBLE }
            // Inside what scrolls are views that are larger than it.
            if (!group.scrolls) for (child in children) {
                val isInside = Rect(0, 0, group.width, group.height).contains(child.bounds)
                assertTrue(isInside, "$form: ${describe(child)} ${child.bounds} of ${describe(group)}")
            }
            // Frames are made to lay one thing on another.
            if (group is FrameLayout) continue
            for ((i, one) in children.withIndex()) for (other in children.drop(i + 1)) {
                val both = "$form: ${describe(one)} ${one.bounds}, ${describe(other)} ${other.bounds}"
                assertFalse(Rect.intersects(one.bounds, other.bounds), both)
            }
        }
    }

    /** What can be touched has a name for TalkBack, and 48 dp. */
    fun checkTargets(form: String) {
        val density = phone.activity.resources.displayMetrics.density
        for (view in phone.views().filter { it.isClickable && it !is ListView }) {
            assertTrue(isNamed(view), "$form: ${describe(view)} has no name for TalkBack")
            val width = view.width / density
            val height = view.height / density
            val size = "$form: ${describe(view)} is $width x $height dp"
            assertTrue(width >= 48 && height >= 48, size)
        }
    }

    private fun isInWindow(view: View): Boolean {
        val place = IntArray(2).also(view::getLocationInWindow)
        val window = phone.activity.window.decorView
        return place[0] >= 0 && place[0] + view.width <= window.width
    }

    private fun isNamed(view: View): Boolean {
        val text = (view as? TextView)?.let { it.text.ifEmpty { it.hint } }
        return !view.contentDescription.isNullOrBlank() || !text.isNullOrBlank() ||
            view is ViewGroup && texts(view).isNotEmpty()
    }

    private fun texts(group: ViewGroup): List<CharSequence> =
        (0 until group.childCount).map(group::getChildAt).filterIsInstance<TextView>()
            .map { it.text }
}

fun describe(view: View): String {
    val text = (view as? TextView)?.text ?: view.contentDescription
    return "${view.javaClass.simpleName} \"$text\""
}

private val View.bounds: Rect get() = Rect(left, top, right, bottom)

// A `ScrollView` is a frame, too.
private val ViewGroup.scrolls: Boolean
    get() = canScrollVertically(1) || canScrollVertically(-1) || this is HorizontalScrollView ||
        this is ListView
