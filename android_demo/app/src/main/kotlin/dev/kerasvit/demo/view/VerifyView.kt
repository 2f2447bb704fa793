package dev.kerasvit.demo.view

import android.view.View
import android.view.ViewGroup
import android.widget.Button
import android.widget.TextView
import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.Measured
import dev.kerasvit.core.Outcome
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.Verification
import dev.kerasvit.engine.EngineFailure

/** The golden check of one model on every backend. */
internal class VerifyView(
    override val view: View,
    private val host: Host,
    private val wording: Wording,
) : ScreenView {
    private val model = ModelPart(view.findViewById(R.id.model), host, wording)
    private val start = view.findViewById<Button>(R.id.verify_start)
    private val verdicts = view.findViewById<ViewGroup>(R.id.verdicts)
    private val progress = view.findViewById<View>(R.id.verify_progress)
    private val running = view.findViewById<TextView>(R.id.verify_running)
    private val problem = ProblemPart(view.findViewById(R.id.problem), wording, host::act)
    private val share = view.findViewById<Button>(R.id.verify_share)
    private var shown: List<BackendVerdict> = emptyList()

    init {
        start.setOnClickListener { host.send(Event.Verify) }
        view.findViewById<View>(R.id.verify_stop)
            .setOnClickListener { host.send(Event.StopVerifying) }
    }

    override fun render(state: UiState) {
        val verification = state.verification
        val bundle = state.model?.bundle
        model.render(state.model)
        start.isVisible = bundle != null && !verification.isRunning
        val isDone = verification.verdicts.isNotEmpty() || verification.problem != null
        start.setText(if (isDone) R.string.verify_again else R.string.verify_start)
        problem.render(state.model?.problem ?: verification.problem)
        renderProgress(state)
        if (verification.verdicts != shown) build(verification.verdicts, bundle)
        renderShare(verification)
    }

    private fun renderProgress(state: UiState) {
        val next = state.backends.getOrNull(state.verification.verdicts.size)
        progress.isVisible = state.verification.isRunning && next != null
        if (next != null) {
            running.show(wording.text(R.string.verify_running, wording.backend(next)))
        }
    }

    private fun renderShare(verification: Verification) {
        val report = verification.report
        share.isVisible = report != null
        if (report == null) return
        val title = wording.text(R.string.verify_share_title, verification.model.orEmpty())
        share.setOnClickListener { host.share(title, report) }
    }

    private fun build(next: List<BackendVerdict>, bundle: Bundle?) {
        shown = next
        verdicts.removeAllViews()
        for (verdict in next) build(verdict, bundle)
    }

    private fun build(verdict: BackendVerdict, bundle: Bundle?) {
        val card = verdicts.inflate(R.layout.item_verdict)
        card.findViewById<TextView>(R.id.verdict_backend).text = wording.backend(verdict.backend)
        val word = card.findViewById<TextView>(R.id.verdict)
        val facts = card.findViewById<ViewGroup>(R.id.verdict_facts)
        when (val outcome = verdict.outcome) {
            is Outcome.Passed -> {
                if (outcome.measured.classAgrees) {
                    word.mark(R.string.verify_passed, R.drawable.ic_check, R.color.good)
                } else {
                    word.mark(R.string.verify_other_class, R.drawable.ic_warning, R.color.bad)
                }
                build(facts, outcome.measured, bundle)
            }
            is Outcome.Failed -> {
                word.mark(R.string.verify_failed, R.drawable.ic_warning, R.color.bad)
                build(facts, outcome.measured, bundle)
            }
            is Outcome.Refused -> {
                word.mark(R.string.verify_refused, R.drawable.ic_cross, R.color.text_secondary)
                facts.inflate(R.layout.item_fact).apply {
                    findViewById<View>(R.id.fact_name).isVisible = false
                    findViewById<TextView>(R.id.fact).text = reason(outcome)
                }
            }
        }
    }

    // The runtime's own words; that its numbers are useless is the app's finding.
    private fun reason(outcome: Outcome.Refused): String =
        if (outcome.kind == EngineFailure.NOT_FINITE) {
            wording.text(R.string.verify_not_finite)
        } else {
            outcome.reason
        }

    private fun build(facts: ViewGroup, measured: Measured, bundle: Bundle?) {
        fun fact(name: Int, text: String) {
            val view = facts.inflate(R.layout.item_fact)
            view.findViewById<TextView>(R.id.fact_name).setText(name)
            view.findViewById<TextView>(R.id.fact).text = text
        }
        fact(
            R.string.verify_tensor,
            difference(measured.tensorDifference, measured.tensorTolerance),
        )
        fact(R.string.verify_scores, difference(measured.scoreDifference, measured.scoreTolerance))
        fact(R.string.verify_class, classes(measured, bundle))
        fact(R.string.verify_time, wording.withUnit(measured.inferenceMillis))
        if (bundle != null) {
            fact(R.string.verify_operators, wording.taken(measured.info, bundle.description.operators))
        }
    }

    private fun difference(value: Double, tolerance: Double): String = wording.text(
        R.string.verify_difference,
        wording.difference(value),
        wording.difference(tolerance),
    )

    private fun classes(measured: Measured, bundle: Bundle?): String {
        fun name(index: Int) = bundle?.labels?.getOrNull(index) ?: index.toString()
        val found = name(measured.foundClass)
        if (measured.classAgrees) {
            return wording.text(R.string.verify_class_same, found)
        }
        return wording.text(R.string.verify_class_other, found, name(measured.expectedClass))
    }
}

// A symbol and a word: colour alone tells nothing to many eyes.
private fun TextView.mark(word: Int, symbol: Int, colour: Int) {
    setText(word)
    setTextColor(context.getColor(colour))
    setCompoundDrawablesRelativeWithIntrinsicBounds(symbol, 0, 0, 0)
    compoundDrawableTintList = context.getColorStateList(colour)
}
