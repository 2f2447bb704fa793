package dev.kerasvit.demo.view

import android.content.Context
import android.graphics.Canvas
import android.graphics.Paint
import android.graphics.RectF
import android.util.AttributeSet
import android.view.View
import dev.kerasvit.core.CropBox
import dev.kerasvit.demo.R

/** Lies over a picture that is fitted into this view, and dims what the model leaves out of it. */
class CropView(context: Context, attributes: AttributeSet?) : View(context, attributes) {
    private val scrim = Paint().apply { color = context.getColor(R.color.scrim) }
    private val edge = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        color = context.getColor(R.color.on_scrim)
        style = Paint.Style.STROKE
        strokeWidth = resources.displayMetrics.density
    }
    private val picture = RectF()

    /** The part of the view that the model sees. */
    internal val seen = RectF()

    /** The part of the picture that the model sees; null dims nothing. */
    internal var box: CropBox? = null
        set(value) {
            field = value?.takeUnless { it.isWhole }
            invalidate()
        }

    override fun onDraw(canvas: Canvas) {
        val box = box ?: return
        place(box)
        canvas.save()
        canvas.clipOutRect(seen)
        canvas.drawRect(picture, scrim)
        canvas.restore()
        canvas.drawRect(seen, edge)
    }

    private fun place(box: CropBox) {
        val scale = minOf(width.toFloat() / box.width, height.toFloat() / box.height)
        val left = (width - box.width * scale) / 2
        val top = (height - box.height * scale) / 2
        picture.set(left, top, left + box.width * scale, top + box.height * scale)
        seen.set(
            left + box.left * scale,
            top + box.top * scale,
            left + box.right * scale,
            top + box.bottom * scale,
        )
    }
}
