package dev.kerasvit.demo.view

import android.content.Context
import android.util.AttributeSet
import android.view.View
import android.view.ViewGroup

/** Puts its children beside each other and begins a new line where the width ends. */
class FlowLayout(context: Context, attributes: AttributeSet?) : ViewGroup(context, attributes) {
    private val gap = (8 * resources.displayMetrics.density).toInt()

    override fun onMeasure(widthMeasureSpec: Int, heightMeasureSpec: Int) {
        val width = MeasureSpec.getSize(widthMeasureSpec)
        val most = MeasureSpec.makeMeasureSpec(width, MeasureSpec.AT_MOST)
        val any = MeasureSpec.makeMeasureSpec(0, MeasureSpec.UNSPECIFIED)
        for (child in shown()) child.measure(most, any)
        setMeasuredDimension(width, place(width) { _, _, _ -> })
    }

    override fun onLayout(changed: Boolean, left: Int, top: Int, right: Int, bottom: Int) {
        val isRtl = layoutDirection == LAYOUT_DIRECTION_RTL
        val width = right - left
        place(width) { child, start, y ->
            val x = if (isRtl) width - start - child.measuredWidth else start
            child.layout(x, y, x + child.measuredWidth, y + child.measuredHeight)
        }
    }

    // Returns the height of all lines.
    private inline fun place(width: Int, put: (child: View, start: Int, y: Int) -> Unit): Int {
        var start = 0
        var y = 0
        var lineHeight = 0
        for (child in shown()) {
            if (start > 0 && start + child.measuredWidth > width) {
                start = 0
                y += lineHeight
                lineHeight = 0
            }
            put(child, start, y)
            start += child.measuredWidth + gap
            lineHeight = maxOf(lineHeight, child.measuredHeight)
        }
        return y + lineHeight
    }

    private fun shown(): List<View> =
        (0 until childCount).map(::getChildAt).filter { it.visibility != GONE }
}
