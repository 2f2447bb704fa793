package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.height
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.LinearProgressIndicator
import androidx.compose.material3.LocalContentColor
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.alpha
import androidx.compose.ui.semantics.LiveRegionMode
import androidx.compose.ui.semantics.clearAndSetSemantics
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.liveRegion
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.text.TextStyle
import androidx.compose.ui.text.font.FontWeight
import androidx.compose.ui.unit.dp
import dev.kerasvit.core.Prediction
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Announcement
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.isNamed

/**
 * The most probable class in large letters, bars for all that were found, and similar pictures; or
 * the colours of patches, or the classes of a mask.
 *
 * @param announcement what TalkBack says of it by itself, where it says anything
 * @param isOneOfTwo whether TalkBack must say which model an answer is of
 */
@Composable
internal fun AnswerPart(
    result: Result,
    threshold: Int,
    announcement: Announcement?,
    isOneOfTwo: Boolean = false,
) {
    val answer = result.answer
    if (answer == null) {
        if (result is Result.Working) {
            Text(LocalWording.current.text(R.string.result_working), style = headline)
        }
        return
    }
    Column(Modifier.fillMaxWidth().alpha(result.alpha)) {
        val model = answer.model.takeIf { isOneOfTwo }
        if (answer.rows.isNotEmpty()) Classes(answer.rows, threshold, announcement, model)
        answer.similar?.let { SimilarPart(it, model) }
        answer.patches?.let { PatchPart(it, model) }
        answer.mask?.let { MaskPart(it, model) }
    }
}

@Composable
private fun Classes(
    rows: List<Prediction>,
    threshold: Int,
    announcement: Announcement?,
    model: String?,
) {
    val best = rows[0].takeIf { it.isNamed(threshold) }
    Headline(best, announcement, model)
    if (best == null) {
        val wording = LocalWording.current
        Secondary(wording.text(R.string.result_unsure_detail, wording.percents(threshold)))
    } else {
        Bar(best, isNamed = true, Modifier.height(8.dp))
    }
    for (row in if (best == null) rows else rows.drop(1)) {
        Probability(row, row.isNamed(threshold), model)
    }
}

@Composable
private fun Headline(best: Prediction?, announcement: Announcement?, model: String?) {
    val wording = LocalWording.current
    val label = best?.label ?: wording.text(R.string.result_unsure)
    val spoken = announcement?.let { it.label ?: wording.text(R.string.result_unsure) }
    Row(
        Modifier.fillMaxWidth().semantics(mergeDescendants = spoken == null) {
            if (model != null) contentDescription = wording.spoken(model, label, best?.probability)
        },
        verticalAlignment = Alignment.CenterVertically,
    ) {
        Text(
            label,
            Modifier.weight(1f).padding(end = 8.dp).semantics {
                heading()
                // What is on the screen changes many times a second, what is announced does not.
                if (spoken != null) {
                    contentDescription = spoken
                    liveRegion = LiveRegionMode.Polite
                }
            },
            // Beside another answer there is half the room: most words would be broken.
            style = if (model == null) headline else MaterialTheme.typography.titleLarge,
        )
        if (best != null) {
            Text(
                wording.probability(best.probability),
                color = MaterialTheme.colorScheme.primary,
                style = MaterialTheme.typography.titleLarge.tabular(),
            )
        }
    }
}

@Composable
private fun Probability(row: Prediction, isNamed: Boolean, model: String?) {
    val wording = LocalWording.current
    val described = wording.spoken(model, row.label, row.probability)
    val colours = MaterialTheme.colorScheme
    Column(
        Modifier.fillMaxWidth().padding(top = 8.dp).semantics(mergeDescendants = true) {
            contentDescription = described
        },
    ) {
        Row(Modifier.padding(bottom = 3.dp)) {
            val colour = if (isNamed) LocalContentColor.current else colours.onSurfaceVariant
            val style = MaterialTheme.typography.bodyMedium
            Text(row.label, Modifier.weight(1f).padding(end = 8.dp), colour, style = style)
            Text(wording.probability(row.probability), color = colour, style = style.tabular())
        }
        Bar(row, isNamed, Modifier.height(4.dp))
    }
}

@Composable
private fun Bar(row: Prediction, isNamed: Boolean, modifier: Modifier) {
    val colours = MaterialTheme.colorScheme
    LinearProgressIndicator(
        progress = { row.probability.toFloat() },
        modifier.fillMaxWidth().clearAndSetSemantics {},
        color = if (isNamed) colours.primary else colours.outline,
        trackColor = colours.surfaceContainerHighest,
        gapSize = 0.dp,
        drawStopIndicator = {},
    )
}

/** What is on the screen of a result: the old answer, until there is a new one. */
internal val Result.answer: Result.Answer?
    get() = this as? Result.Answer ?: (this as? Result.Working)?.previous

internal val Result.alpha: Float get() = if (this is Result.Working) 0.4f else 1f

private val headline: TextStyle
    @Composable
    get() = MaterialTheme.typography.headlineMedium.copy(fontWeight = FontWeight.SemiBold)

/** With digits of one width, so that numbers that change do not tremble. */
internal fun TextStyle.tabular(): TextStyle = copy(fontFeatureSettings = "tnum")
