package dev.kerasvit.demo.view

import android.view.View
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.UiState

/** One model on one picture, or on what the camera sees. */
internal class ClassifyView(override val view: View, host: Host, wording: Wording) : ScreenView {
    private val model = ModelPart(view.findViewById(R.id.model), host, wording)
    private val picture = PicturePart(view, host)
    private val source = SourcePart(view, host, wording)
    private val card = view.findViewById<View>(R.id.result_card)
    private val answer = AnswerPart(view.findViewById(R.id.answer), wording)
    private val problem = ProblemPart(view.findViewById(R.id.problem), wording, host::act)
    private val run = RunPart(view.findViewById(R.id.run), wording)
    private val settings = SettingsPart(view, host, wording)

    override fun render(state: UiState) {
        val result = if (state.sourceProblem == null) state.shownResult else Result.None
        model.render(state.model)
        picture.render(state)
        source.render(state)
        card.isVisible = result is Result.Answer || result is Result.Working
        answer.render(result, state.settings.threshold, state.announcement)
        problem.render(state.sourceProblem ?: (result as? Result.Failed)?.problem)
        run.render(result)
        settings.render(state)
    }
}
