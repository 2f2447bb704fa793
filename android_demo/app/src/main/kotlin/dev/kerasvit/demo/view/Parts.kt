package dev.kerasvit.demo.view

import android.view.LayoutInflater
import android.view.View
import android.view.ViewGroup
import android.view.accessibility.AccessibilityNodeInfo
import android.widget.Button
import android.widget.TextView
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Problem

/** Inflates a layout and adds it. */
internal fun ViewGroup.inflate(layout: Int): View {
    val view = LayoutInflater.from(context).inflate(layout, this, false)
    addView(view)
    return view
}

/** Writes a text, unless it is there: TalkBack announces what is written to a live region. */
internal fun TextView.show(text: CharSequence) {
    if (this.text.toString() != text.toString()) this.text = text
}

/** Tells TalkBack that this view, which is drawn as something else, is a button. */
internal fun View.actAsButton() {
    accessibilityDelegate = object : View.AccessibilityDelegate() {
        override fun onInitializeAccessibilityNodeInfo(host: View, info: AccessibilityNodeInfo) {
            super.onInitializeAccessibilityNodeInfo(host, info)
            info.className = Button::class.java.name
        }
    }
}

/** The chosen model; opens the list of models. */
internal class ModelPart(
    private val root: View,
    private val host: Host,
    private val wording: Wording,
    isRival: Boolean = false,
) {
    private val name = root.findViewById<TextView>(R.id.model_name)
    private val summary = root.findViewById<TextView>(R.id.model_summary)

    init {
        root.setOnClickListener { host.send(Event.PickModel(isRival)) }
        root.actAsButton()
    }

    fun render(model: Model?) {
        root.isVisible = model != null
        if (model == null) return
        name.show(model.name)
        summary.show(wording.summary(model))
        val described = "${model.name}, ${wording.summary(model)}"
        root.contentDescription = wording.text(R.string.model_choose, described)
    }
}

/** A message with what can be done about it; gone if there is none. */
internal class ProblemPart(
    private val root: View,
    private val wording: Wording,
    private val act: (Action) -> Unit,
) {
    private val title = root.findViewById<TextView>(R.id.problem_title)
    private val body = root.findViewById<TextView>(R.id.problem_body)
    private val detail = root.findViewById<TextView>(R.id.problem_detail)
    private val button = root.findViewById<Button>(R.id.problem_action)

    fun render(problem: Problem?) {
        root.isVisible = problem != null
        if (problem == null) return
        val text = wording.problem(problem)
        title.show(text.title)
        body.show(text.body)
        detail.isVisible = text.detail.isNotEmpty()
        detail.show(text.detail)
        val action = text.action
        button.isVisible = action != null
        if (action == null) return
        button.show(wording.text(action.label))
        button.setOnClickListener { act(action) }
    }
}
