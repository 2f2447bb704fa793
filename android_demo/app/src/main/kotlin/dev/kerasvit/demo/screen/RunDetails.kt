package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.widthIn
import androidx.compose.material3.HorizontalDivider
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.alpha
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.text.TextStyle
import androidx.compose.ui.text.style.TextAlign
import androidx.compose.ui.unit.dp
import dev.kerasvit.core.Bundle
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Time

/** What colours hold, on what the model really ran, how long each step took, what the model is. */
@Composable
internal fun RunDetails(result: Result, bundle: Bundle?, modifier: Modifier = Modifier) {
    val answer = result.answer ?: return
    val wording = LocalWording.current
    Column(modifier.fillMaxWidth().alpha(result.alpha)) {
        answer.patches?.let {
            Section(R.string.variance_title)
            Secondary(wording.variance(it.colours))
        }
        Section(R.string.run_title)
        Text(wording.backend(answer.info), style = MaterialTheme.typography.titleSmall)
        Secondary(wording.delegated(answer.info, answer.operators))
        Secondary(answer.info.runtime)
        Times(answer)
        if (bundle != null) {
            Section(R.string.model_facts)
            for (fact in wording.facts(bundle)) Secondary(fact)
        }
    }
}

@Composable
private fun Times(answer: Result.Answer) {
    val wording = LocalWording.current
    Section(R.string.time_title)
    val small = MaterialTheme.typography.labelMedium
    Line("", wording.text(R.string.time_median), wording.text(R.string.time_p90), small)
    TimeLine(R.string.time_preprocessing, answer.times.preprocessing)
    TimeLine(R.string.time_inference, answer.times.inference)
    TimeLine(R.string.time_reading, answer.times.reading)
    Secondary(wording.plural(R.plurals.time_count, answer.times.count, answer.times.count))
}

@Composable
private fun TimeLine(step: Int, time: Time) {
    val wording = LocalWording.current
    val style = MaterialTheme.typography.bodyMedium.tabular()
    val median = wording.milliseconds(time.median)
    Line(wording.text(step), median, wording.milliseconds(time.p90), style)
}

@Composable
private fun Line(name: String, first: String, second: String, style: TextStyle) {
    Row(Modifier.fillMaxWidth().padding(vertical = 2.dp).semantics(mergeDescendants = true) {}) {
        Text(name, Modifier.weight(1f), style = style)
        for (number in listOf(first, second)) {
            Text(
                number,
                Modifier.widthIn(min = 64.dp).padding(start = 8.dp),
                textAlign = TextAlign.End,
                style = style,
            )
        }
    }
}

@Composable
internal fun Section(title: Int, modifier: Modifier = Modifier) {
    HorizontalDivider(Modifier.padding(vertical = 12.dp))
    Text(
        LocalWording.current.text(title),
        modifier.padding(bottom = 4.dp).semantics { heading() },
        color = MaterialTheme.colorScheme.primary,
        style = MaterialTheme.typography.titleSmall,
    )
}

@Composable
internal fun Secondary(text: String, modifier: Modifier = Modifier) = Text(
    text,
    modifier,
    color = MaterialTheme.colorScheme.onSurfaceVariant,
    style = MaterialTheme.typography.bodyMedium,
)
