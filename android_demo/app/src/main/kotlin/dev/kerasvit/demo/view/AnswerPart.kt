package dev.kerasvit.demo.view

import android.view.View
import android.view.ViewGroup
import android.widget.TextView
import dev.kerasvit.core.Prediction
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Announcement
import dev.kerasvit.demo.state.Result

/**
 * The most probable class in large letters, and bars for all that were found.
 *
 * @param isOneOfTwo whether TalkBack must say which model an answer is of
 */
internal class AnswerPart(
    private val root: View,
    private val wording: Wording,
    private val isOneOfTwo: Boolean = false,
) {
    private val headline = root.findViewById<View>(R.id.answer_headline)
    private val label = root.findViewById<TextView>(R.id.answer_label)
    private val probability = root.findViewById<TextView>(R.id.answer_probability)
    private val detail = root.findViewById<TextView>(R.id.answer_detail)
    private val rows = root.findViewById<ViewGroup>(R.id.answer_rows)
    private var announced: Announcement? = null

    /** [announcement] is what TalkBack says of it, where it says anything by itself. */
    fun render(result: Result, threshold: Int, announcement: Announcement?) {
        root.isVisible = result is Result.Answer || result is Result.Working
        // An old answer stays, pale, until the new one comes: an empty card would flicker.
        root.alpha = if (result is Result.Working) 0.4f else 1f
        if (result is Result.Working && rows.childCount == 0) {
            label.show(wording.text(R.string.result_working))
        }
        if (result is Result.Answer) show(result, threshold)
        speak(announcement)
    }

    private fun show(answer: Result.Answer, threshold: Int) {
        val found = answer.rows
        val best = found.firstOrNull()?.takeIf { it.isNamed(threshold) }
        label.show(best?.label ?: wording.text(R.string.result_unsure))
        probability.isVisible = best != null
        probability.show(wording.probability(best?.probability ?: 0.0))
        detail.isVisible = best == null
        detail.show(wording.text(R.string.result_unsure_detail, wording.threshold(threshold)))
        headline.describe(answer, spoken(best?.label, found.first().probability))
        while (rows.childCount < found.size) rows.inflate(R.layout.item_class)
        for (i in 0 until rows.childCount) {
            val row = rows.getChildAt(i)
            row.isVisible = i < found.size
            if (i < found.size) show(row, found[i], threshold)
            if (i < found.size) {
                row.describe(answer, spoken(found[i].label, found[i].probability))
            }
            // The headline says already what the first bar is.
            row.findViewById<View>(R.id.class_text).isVisible = i > 0 || best == null
        }
    }

    private fun show(view: View, row: Prediction, threshold: Int) {
        view.findViewById<TextView>(R.id.class_label).show(row.label)
        view.findViewById<TextView>(R.id.class_probability)
            .show(wording.probability(row.probability))
        view.findViewById<BarView>(R.id.class_bar).fraction = row.probability.toFloat()
        view.alpha = if (row.isNamed(threshold)) 1f else 0.7f
    }

    // Not a live region: what is on the screen changes many times a second.
    private fun speak(announcement: Announcement?) {
        if (announcement == null || announcement == announced) return
        announced = announcement
        root.announceForAccessibility(spoken(announcement.label, announcement.probability))
    }

    /** "7, 98.2%" */
    private fun spoken(label: String?, probability: Double): String = wording.text(
        R.string.result_spoken,
        label ?: wording.text(R.string.result_unsure),
        wording.probability(probability),
    )

    private fun View.describe(answer: Result.Answer, text: String) {
        val whole =
            if (isOneOfTwo) wording.text(R.string.result_spoken_of, answer.model, text) else text
        if (whole != contentDescription) contentDescription = whole
    }
}

private fun Prediction.isNamed(threshold: Int): Boolean = probability * 100 >= threshold
