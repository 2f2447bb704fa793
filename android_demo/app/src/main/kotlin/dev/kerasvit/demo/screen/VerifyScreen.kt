package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.WindowInsetsSides
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.only
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.safeDrawing
import androidx.compose.foundation.layout.size
import androidx.compose.foundation.layout.windowInsetsPadding
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.Button
import androidx.compose.material3.CircularProgressIndicator
import androidx.compose.material3.FilledTonalButton
import androidx.compose.material3.Icon
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedCard
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.graphics.Color
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.LiveRegionMode
import androidx.compose.ui.semantics.clearAndSetSemantics
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.liveRegion
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.Measured
import dev.kerasvit.core.Outcome
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.Verification
import dev.kerasvit.demo.state.summaryOf

/** The golden check of one model on every backend. */
@Composable
internal fun VerifyScreen(state: UiState, send: (Event) -> Unit, host: Host) = Column(
    Modifier.fillMaxSize()
        .windowInsetsPadding(WindowInsets.safeDrawing.only(WindowInsetsSides.Top))
        .verticalScroll(rememberKeptScroll())
        .windowInsetsPadding(WindowInsets.safeDrawing).padding(MARGIN),
    Arrangement.spacedBy(12.dp),
) {
    val wording = LocalWording.current
    val verification = state.verification
    summaryOf(verification)?.let {
        Text(
            wording.summary(it),
            Modifier.semantics { heading() },
            style = MaterialTheme.typography.titleLarge,
        )
    }
    state.model?.let { ModelChip(it) { send(Event.PickModel(rival = false)) } }
    Secondary(wording.text(R.string.verify_explanation))
    if (state.model?.bundle != null && !verification.isRunning) Start(verification, send)
    for (verdict in verification.verdicts) VerdictCard(verdict, state.model?.bundle)
    if (verification.isRunning) Progress(state, send)
    val problem = state.model?.problem ?: verification.problem
    if (problem != null) ProblemCard(problem) { host.act(it, send) }
    Share(verification, host)
}

@Composable
private fun Start(verification: Verification, send: (Event) -> Unit) {
    val isDone = verification.verdicts.isNotEmpty() || verification.problem != null
    Button({ send(Event.Verify) }) {
        val name = if (isDone) R.string.verify_again else R.string.verify_start
        Text(LocalWording.current.text(name))
    }
}

@Composable
private fun Progress(state: UiState, send: (Event) -> Unit) {
    val wording = LocalWording.current
    val next = state.backends.getOrNull(state.verification.verdicts.size) ?: return
    Row(Modifier.fillMaxWidth(), verticalAlignment = Alignment.CenterVertically) {
        CircularProgressIndicator(Modifier.size(32.dp).clearAndSetSemantics {})
        Secondary(
            wording.text(R.string.verify_running, wording.backend(next)),
            Modifier.weight(1f).padding(horizontal = 12.dp).semantics {
                liveRegion = LiveRegionMode.Polite
            },
        )
        FilledTonalButton({ send(Event.StopVerifying) }) {
            Text(wording.text(R.string.verify_stop))
        }
    }
}

@Composable
private fun Share(verification: Verification, host: Host) {
    val report = verification.report ?: return
    val wording = LocalWording.current
    val title = wording.text(R.string.verify_share_title, verification.model.orEmpty())
    FilledTonalButton({ host.share(title, report) }) {
        Icon(painterResource(R.drawable.ic_share), null, Modifier.padding(end = 8.dp).size(20.dp))
        Text(wording.text(R.string.verify_share))
    }
}

@Composable
private fun VerdictCard(verdict: BackendVerdict, bundle: Bundle?) = OutlinedCard(
    Modifier.fillMaxWidth(),
) {
    val wording = LocalWording.current
    Column(Modifier.padding(MARGIN), Arrangement.spacedBy(4.dp)) {
        Text(
            wording.backend(verdict.backend),
            Modifier.semantics { heading() },
            style = MaterialTheme.typography.titleMedium,
        )
        Mark(verdict.outcome)
        when (val outcome = verdict.outcome) {
            is Outcome.Passed -> Facts(outcome.measured, bundle)
            is Outcome.Failed -> Facts(outcome.measured, bundle)
            is Outcome.Refused -> Secondary(wording.reason(outcome))
        }
    }
}

// A symbol and a word: colour alone tells nothing to many eyes.
@Composable
private fun Mark(outcome: Outcome) {
    val colours = MaterialTheme.colorScheme
    when {
        outcome is Outcome.Refused ->
            Mark(R.string.verify_refused, R.drawable.ic_cross, colours.onSurfaceVariant)
        outcome is Outcome.Failed ->
            Mark(R.string.verify_failed, R.drawable.ic_warning, colours.error)
        outcome is Outcome.Passed && !outcome.measured.classAgrees ->
            Mark(R.string.verify_other_class, R.drawable.ic_warning, colours.error)
        else -> Mark(R.string.verify_passed, R.drawable.ic_check, colours.primary)
    }
}

@Composable
private fun Mark(word: Int, symbol: Int, colour: Color) =
    Row(verticalAlignment = Alignment.CenterVertically) {
        Icon(painterResource(symbol), null, Modifier.size(20.dp), tint = colour)
        Text(
            LocalWording.current.text(word),
            Modifier.padding(start = 8.dp),
            color = colour,
            style = MaterialTheme.typography.titleSmall,
        )
    }

@Composable
private fun Facts(measured: Measured, bundle: Bundle?) {
    for ((name, fact) in LocalWording.current.facts(measured, bundle)) {
        val merged = Modifier.semantics(mergeDescendants = true) {}
        if (hasLargeLetters()) {
            Column(merged) {
                Secondary(name)
                Text(fact, style = MaterialTheme.typography.bodyMedium)
            }
        } else {
            Row(merged) {
                Secondary(name, Modifier.weight(0.35f).padding(end = 8.dp))
                Text(fact, Modifier.weight(0.65f), style = MaterialTheme.typography.bodyMedium)
            }
        }
    }
}
