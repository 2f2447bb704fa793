package dev.kerasvit.demo.view

import android.view.View
import android.view.ViewGroup
import android.widget.LinearLayout
import android.widget.TextView
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Announcement
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.UiState

/** Two models on the same picture. */
internal class CompareView(override val view: View, host: Host, wording: Wording) : ScreenView {
    private val picture = PicturePart(view, host)
    private val source = SourcePart(view, host, wording)
    private val problem = ProblemPart(view.findViewById(R.id.source_problem), wording, host::act)
    private val pair = view.findViewById<LinearLayout>(R.id.pair).apply { stackIfNarrow() }
    private val left = Contender(pair.inflate(R.layout.item_contender), host, wording, false)
    private val right = Contender(pair.inflate(R.layout.item_contender), host, wording, true)

    init {
        if (pair.orientation == LinearLayout.VERTICAL) stack() else separate()
    }

    override fun render(state: UiState) {
        val hasPicture = state.sourceProblem == null
        picture.render(state)
        source.render(state)
        problem.render(state.sourceProblem)
        val threshold = state.settings.threshold
        val first = if (hasPicture) state.shownResult else Result.None
        val second = if (hasPicture) state.shownRivalResult else Result.None
        left.render(state.model, first, threshold, state.announcement)
        right.render(state.rival, second, threshold, null)
    }

    private fun stack() {
        for (i in 0 until pair.childCount) {
            val child = pair.getChildAt(i).layoutParams as LinearLayout.LayoutParams
            child.width = ViewGroup.LayoutParams.MATCH_PARENT
            child.weight = 0f
        }
    }

    private fun separate() {
        val second = pair.getChildAt(1).layoutParams as LinearLayout.LayoutParams
        second.marginStart = (12 * view.resources.displayMetrics.density).toInt()
    }
}

// Two columns of large letters would be one word wide.
private fun LinearLayout.stackIfNarrow() {
    if (resources.configuration.fontScale > 1.3f) orientation = LinearLayout.VERTICAL
}

/** One of the two models. */
private class Contender(root: View, host: Host, private val wording: Wording, isRival: Boolean) {
    private val model = ModelPart(root.findViewById(R.id.model), host, wording, isRival)

    init {
        // In half the width, long names would be broken in two.
        root.findViewById<TextView>(R.id.model_name).textSize = 16f
    }

    private val answer = AnswerPart(root.findViewById(R.id.answer), wording, isOneOfTwo = true)
    private val time = root.findViewById<TextView>(R.id.contender_time)
    private val problem = ProblemPart(root.findViewById(R.id.problem), wording) { action ->
        if (action == Action.CHOOSE_MODEL) host.send(Event.PickModel(isRival)) else host.act(action)
    }

    fun render(shown: Model?, result: Result, threshold: Int, announcement: Announcement?) {
        model.render(shown)
        answer.render(result, threshold, announcement)
        problem.render((result as? Result.Failed)?.problem)
        time.isVisible = result is Result.Answer
        if (result is Result.Answer) {
            val inference = wording.withUnit(result.times.inference.median)
            time.show("$inference\n${wording.backend(result.info)}")
        }
    }
}
