package dev.kerasvit.demo.view

import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.util.AttributeSet
import android.view.View
import dev.kerasvit.demo.R

/** A probability as a bar. */
class BarView(context: Context, attributes: AttributeSet?) : View(context, attributes) {
    private val track = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        color = context.getColor(R.color.bar_track)
    }
    private val fill = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        color = context.getColor(R.color.accent)
    }

    /** From 0 to 1. */
    var fraction = 0f
        set(value) {
            field = value
            invalidate()
        }

    override fun onDraw(canvas: Canvas) {
        val right = width.toFloat()
        val bottom = height.toFloat()
        val round = bottom / 2
        canvas.drawRoundRect(0f, 0f, right, bottom, round, round, track)
        if (fraction <= 0) return
        // At least a dot: a class with little probability is not a class with none.
        val length = maxOf(right * fraction, bottom)
        val start = if (layoutDirection == LAYOUT_DIRECTION_RTL) right - length else 0f
        canvas.drawRoundRect(start, 0f, start + length, bottom, round, round, fill)
    }
}
