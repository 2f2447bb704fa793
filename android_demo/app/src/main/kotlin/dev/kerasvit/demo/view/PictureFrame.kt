package dev.kerasvit.demo.view

import android.content.Context
import android.util.AttributeSet
import android.widget.FrameLayout

/** A frame with round corners, low enough for the result to be seen below or beside it. */
class PictureFrame(context: Context, attributes: AttributeSet?) :
    FrameLayout(context, attributes) {
    init {
        clipToOutline = true
    }

    override fun onMeasure(widthMeasureSpec: Int, heightMeasureSpec: Int) {
        val width = MeasureSpec.getSize(widthMeasureSpec)
        val tallest = resources.displayMetrics.heightPixels * 4 / 10
        val height = minOf(width * 5 / 8, tallest)
        super.onMeasure(
            widthMeasureSpec,
            MeasureSpec.makeMeasureSpec(height, MeasureSpec.EXACTLY),
        )
    }
}
