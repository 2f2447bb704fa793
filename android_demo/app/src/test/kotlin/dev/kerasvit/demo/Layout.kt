package dev.kerasvit.demo

import androidx.compose.ui.geometry.Rect
import androidx.compose.ui.geometry.Size
import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.semantics.SemanticsNode
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.semantics.SemanticsPropertyKey
import androidx.compose.ui.semantics.getOrNull
import androidx.compose.ui.text.TextLayoutResult
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertTrue

/** Checks of what is on a phone's screen. Messages say in which [form] the phone is. */
class Layout(private val phone: Phone) {
    /** Text is whole if it fits into its place, does not end in dots, and no word is broken. */
    fun checkTexts(form: String) {
        val width = phone.activity.window.decorView.width
        for (node in phone.nodes()) {
            val layout = layoutOf(node) ?: continue
            val place = "$form: ${describe(node)}"
            val (needed, room) = layout.multiParagraph.height to layout.size.height
            val hasAllLines = !layout.multiParagraph.didExceedMaxLines
            assertTrue(needed <= room + 1 && hasAllLines, "$place: $needed > $room")
            val last = layout.lineCount - 1
            val isWide = layout.multiParagraph.getLineWidth(last) > layout.size.width + 1
            assertFalse(isWide || layout.isLineEllipsized(last), "$place: the last line")
            for (line in 0 until last) checkBreak(layout, line, place)
            val (left, right) = node.positionInRoot.x to node.positionInRoot.x + node.size.width
            val isScrolled = node.isIn(SemanticsProperties.HorizontalScrollAxisRange)
            assertTrue(isScrolled || left >= -1 && right <= width + 1, place)
        }
    }

    // Hashes have no place to be broken at.
    private fun checkBreak(layout: TextLayoutResult, line: Int, place: String) {
        val text = layout.layoutInput.text.text
        if (text.split(Regex("\\s")).any { it.length > 30 }) return
        val end = layout.getLineEnd(line)
        val isBroken = text[end - 1].isLatin && text[end].isLatin
        assertFalse(isBroken, "$place is broken at $end")
    }

    /** What is read lies beside what else is read. */
    fun checkPlaces(form: String) {
        val texts = phone.nodes().filter { layoutOf(it) != null && !it.boundsInRoot.isEmpty }
        for ((i, one) in texts.withIndex()) for (other in texts.drop(i + 1)) {
            if (one.root !== other.root) continue
            val both = one.boundsInRoot.deflate(1f).intersect(other.boundsInRoot.deflate(1f))
            val isApart = both.width <= 0 || both.height <= 0
            assertTrue(isApart, "$form: ${describe(one)} lies over ${describe(other)}")
        }
    }

    /** What can be touched has a name and a role for TalkBack, and 48 dp. */
    fun checkTargets(form: String) {
        val density = phone.activity.resources.displayMetrics.density
        for (node in phone.nodes().filter { it.isTarget }) {
            val place = "$form: ${describe(node)}"
            assertTrue(names(node).any { it.isNotBlank() }, "$place has no name for TalkBack")
            val hasRole = ROLES.any { it in node.config }
            // The handle of a sheet, and what is beside it, say what they do: Material draws them.
            val isMaterial = node.isHandle || node.parent!!.isHandle || node.size == node.top.size
            assertTrue(hasRole || isMaterial, place)
            if (SemanticsActions.OnClick !in node.config) continue // Material's slider has 44 dp.
            if (node.boundsInRoot.size != Rect(node.positionInRoot, node.sizeInRoot).size) continue
            val touched = node.touchBoundsInRoot
            val size = "${touched.width / density} x ${touched.height / density} dp"
            assertTrue(minOf(touched.width, touched.height) >= 48 * density - 1, "$place: $size")
        }
    }

    /** Nothing that is read or touched lies under the system's bars. */
    fun checkBars(form: String) {
        val bottom = phone.activity.window.decorView.height - phone.bars.bottom
        val nodes = phone.nodes().filter { it.texts.any(String::isNotBlank) }
            .filterNot { it.boundsInRoot.isEmpty || SemanticsProperties.Role in it.config }
        for (node in nodes.filter { layoutOf(it) != null }) {
            val place = "$form: ${describe(node)} ${node.boundsInRoot}"
            assertTrue(node.boundsInRoot.top >= phone.bars.top, place)
            val isBelow = node.boundsInRoot.bottom > bottom
            assertFalse(isBelow && !node.isIn(SemanticsProperties.VerticalScrollAxisRange), place)
        }
    }

    /** TalkBack finds nothing that nobody sees. */
    fun checkSpoken(form: String) {
        val density = phone.activity.resources.displayMetrics.density
        for (node in phone.nodes().filter { SemanticsProperties.ContentDescription in it.config }) {
            // TalkBack frames the whole of what is merged.
            if (generateSequence(node.parent) { it.parent }.any { it.isMerging }) continue
            assertTrue(node.size.height >= 16 * density, "$form: ${describe(node)}")
        }
    }

    /** The words are English on a phone in Arabic; numbers must not be in two kinds of digits. */
    fun checkDigits(form: String) {
        val others = phone.texts().filter { text -> text.any { it.isDigit() && it !in '0'..'9' } }
        assertEquals(emptyList(), others, form)
    }
}

fun describe(node: SemanticsNode): String = "\"${names(node).joinToString(" ")}\""

private fun names(node: SemanticsNode): List<String> = node.texts + node.children.flatMap(::names)

private fun layoutOf(node: SemanticsNode): TextLayoutResult? {
    if (node.config.getOrNull(SemanticsProperties.Text).orEmpty().all { it.isEmpty() }) return null
    val results = mutableListOf<TextLayoutResult>()
    node.config.getOrNull(SemanticsActions.GetTextLayoutResult)?.action?.invoke(results)
    return results.firstOrNull()
}

private val SemanticsNode.top: SemanticsNode
    get() = generateSequence(this) { it.parent }.last()

private fun SemanticsNode.isIn(range: SemanticsPropertyKey<*>) =
    generateSequence(this) { it.parent }.any { range in it.config }

private val SemanticsNode.isMerging: Boolean get() = config.isMergingSemanticsOfDescendants

private val SemanticsNode.isTarget: Boolean
    get() = SemanticsActions.OnClick in config || SemanticsActions.SetProgress in config

private val SemanticsNode.isHandle: Boolean
    get() = HANDLES.any { it in config }

private val SemanticsNode.sizeInRoot
    get() = Size(size.width.toFloat(), size.height.toFloat())

private val Char.isLatin: Boolean get() = this in 'a'..'z' || this in 'A'..'Z'

private val HANDLES =
    listOf(SemanticsActions.Expand, SemanticsActions.Collapse, SemanticsActions.Dismiss)

private val ROLES = listOf(
    SemanticsProperties.Role, SemanticsActions.SetText, SemanticsActions.SetProgress,
)
