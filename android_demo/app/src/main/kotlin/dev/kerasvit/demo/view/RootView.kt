package dev.kerasvit.demo.view

import android.annotation.TargetApi
import android.app.Activity
import android.os.Build
import android.view.View
import android.view.ViewGroup
import android.view.WindowInsets
import android.widget.LinearLayout
import android.widget.ListView
import android.widget.ScrollView
import android.widget.TextView
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.UiState

/** The whole window: the current screen, and the way to the others. */
internal class RootView(activity: Activity, private val host: Host) {
    val view: View = View.inflate(activity, R.layout.activity_main, null)

    private val wording = Wording(activity.resources)
    private val screens = view.findViewById<ViewGroup>(R.id.screens)
    private val navigation = view.findViewById<LinearLayout>(R.id.navigation)
    private val destinations = Destination.values().associateWith(::addDestination)
    private var screen: Screen? = null
    private var current: ScreenView? = null
    private var below = 0 // Pixels of the system's bar at the bottom, which screens draw behind.

    init {
        view.setOnApplyWindowInsetsListener { _, insets ->
            fit(insets)
            insets
        }
    }

    fun render(state: UiState) {
        val wanted = state.settings.screen
        if (wanted != screen) show(wanted)
        val marked = if (wanted == Screen.MODELS) state.settings.pickingFrom else wanted
        for ((destination, item) in destinations) item.isSelected = destination.screen == marked
        current?.render(state)
    }

    private fun show(wanted: Screen) {
        screen = wanted
        screens.removeAllViews()
        current = when (wanted) {
            Screen.CLASSIFY ->
                ClassifyView(screens.inflate(R.layout.screen_classify), host, wording)
            Screen.COMPARE -> CompareView(screens.inflate(R.layout.screen_compare), host, wording)
            Screen.VERIFY -> VerifyView(screens.inflate(R.layout.screen_verify), host, wording)
            Screen.LABELS -> LabelsView(screens.inflate(R.layout.screen_labels), host, wording)
            Screen.MODELS -> ModelsView(screens.inflate(R.layout.screen_models), host, wording)
        }
        screens.leaveRoom(below)
    }

    private fun addDestination(destination: Destination): TextView {
        val item = navigation.inflate(R.layout.item_navigation) as TextView
        item.setText(destination.title)
        item.setCompoundDrawablesRelativeWithIntrinsicBounds(0, destination.icon, 0, 0)
        item.compoundDrawableTintList = item.context.getColorStateList(R.color.nav)
        item.setOnClickListener { host.send(Event.Show(destination.screen)) }
        item.actAsButton()
        return item
    }

    // The app draws behind the system's bars; what is to be read and touched stays beside them.
    private fun fit(insets: WindowInsets) {
        val edges = edgesOf(insets)
        val isBelow = (view as LinearLayout).orientation == LinearLayout.VERTICAL
        val gap = (4 * view.resources.displayMetrics.density).toInt()
        view.setPadding(edges.left, edges.top, edges.right, 0)
        navigation.setPadding(gap, gap, gap, gap + edges.bottom)
        below = if (isBelow) 0 else edges.bottom
        screens.leaveRoom(below)
    }
}

// What scrolls is seen behind the bar, and can be scrolled above it.
private fun View.leaveRoom(below: Int) {
    if (this is ScrollView || this is ListView) {
        (this as ViewGroup).clipToPadding = false
        setPadding(paddingLeft, paddingTop, paddingRight, below)
    } else if (this is ViewGroup) {
        for (i in 0 until childCount) getChildAt(i).leaveRoom(below)
    }
}

private enum class Destination(val screen: Screen, val title: Int, val icon: Int) {
    CLASSIFY(Screen.CLASSIFY, R.string.screen_classify, R.drawable.ic_classify),
    COMPARE(Screen.COMPARE, R.string.screen_compare, R.drawable.ic_compare),
    VERIFY(Screen.VERIFY, R.string.screen_verify, R.drawable.ic_verify),
    LABELS(Screen.LABELS, R.string.screen_labels, R.drawable.ic_labels),
}

private class Edges(val left: Int, val top: Int, val right: Int, val bottom: Int)

private fun edgesOf(insets: WindowInsets): Edges =
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) edgesByType(insets) else oldEdgesOf(insets)

@TargetApi(Build.VERSION_CODES.R)
private fun edgesByType(insets: WindowInsets): Edges {
    val all = WindowInsets.Type.systemBars() or WindowInsets.Type.displayCutout() or
        WindowInsets.Type.ime()
    val edges = insets.getInsets(all)
    return Edges(edges.left, edges.top, edges.right, edges.bottom)
}

@Suppress("DEPRECATION")
private fun oldEdgesOf(insets: WindowInsets) = Edges(
    insets.systemWindowInsetLeft,
    insets.systemWindowInsetTop,
    insets.systemWindowInsetRight,
    insets.systemWindowInsetBottom,
)
