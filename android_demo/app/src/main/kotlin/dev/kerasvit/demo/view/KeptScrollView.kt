package dev.kerasvit.demo.view

import android.content.Context
import android.os.Bundle
import android.os.Parcelable
import android.util.AttributeSet
import android.widget.ScrollView

/**
 * Goes back to where it was scrolled to, also where its content comes later: after the end of the
 * process, the first layout has neither samples nor a result, and the platform's would stay there.
 */
class KeptScrollView(context: Context, attributes: AttributeSet?) :
    ScrollView(context, attributes) {
    private var wanted = 0

    override fun onSaveInstanceState(): Parcelable {
        val saved = Bundle()
        saved.putParcelable(SUPER, super.onSaveInstanceState())
        saved.putInt(WANTED, maxOf(wanted, scrollY))
        return saved
    }

    @Suppress("DEPRECATION") // The newer call exists since Android 13.
    override fun onRestoreInstanceState(state: Parcelable) {
        val saved = state as Bundle
        super.onRestoreInstanceState(saved.getParcelable(SUPER))
        wanted = saved.getInt(WANTED)
    }

    override fun onLayout(changed: Boolean, left: Int, top: Int, right: Int, bottom: Int) {
        super.onLayout(changed, left, top, right, bottom)
        if (wanted == 0) return
        scrollTo(0, wanted)
        if (scrollY == wanted) wanted = 0
    }

    // Who scrolls, in whatever way, wants to be there.
    override fun onScrollChanged(left: Int, top: Int, oldLeft: Int, oldTop: Int) {
        super.onScrollChanged(left, top, oldLeft, oldTop)
        if (!isInLayout) wanted = 0
    }
}

private const val SUPER = "super"
private const val WANTED = "wanted"
