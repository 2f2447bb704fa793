package dev.kerasvit.demo.view

import android.content.Context
import android.os.Parcelable
import android.util.AttributeSet
import android.widget.ListView

/** Goes back to where it was scrolled to, also where its rows come later, see [KeptScrollView]. */
class KeptListView(context: Context, attributes: AttributeSet?) : ListView(context, attributes) {
    private var wanted: Parcelable? = null

    override fun onSaveInstanceState(): Parcelable? {
        val current = super.onSaveInstanceState() // Views insist on this call.
        return wanted ?: current
    }

    override fun onRestoreInstanceState(state: Parcelable) {
        super.onRestoreInstanceState(state)
        wanted = state
    }

    override fun layoutChildren() {
        val state = wanted
        if (state != null && count > 0) {
            wanted = null
            super.onRestoreInstanceState(state)
        }
        super.layoutChildren()
    }
}
