package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.PaddingValues
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.asPaddingValues
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.statusBars
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.state.Announcement
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.comparisonOf

/** Two models on the same picture. */
@Composable
internal fun CompareScreen(state: UiState, send: (Event) -> Unit, host: Host) {
    if (isWide()) {
        TwoPanes(
            picture = { Compared(state, send, host, Modifier.fillMaxSize()) },
            results = { Both(state, send, host) },
            below = { SourceRow(state, send, host) },
        )
    } else {
        Column {
            Compared(state, send, host, Modifier.fillMaxWidth().weight(0.4f))
            Column(Modifier.weight(0.6f).verticalScroll(rememberKeptScroll())) {
                Both(state, send, host)
            }
            SourceRow(state, send, host)
        }
    }
}

@Composable
private fun Compared(
    state: UiState,
    send: (Event) -> Unit,
    host: Host,
    modifier: Modifier,
) {
    val top = WindowInsets.statusBars.asPaddingValues().calculateTopPadding()
    PicturePane(state, host, modifier, PaddingValues(top = top)) {
        ModelAndSettings(model = null, send)
        SpeedAndFlip(state, host, LocalWording.current.frames(state.shownResult.answer))
    }
}

@Composable
private fun Both(state: UiState, send: (Event) -> Unit, host: Host) = Column(
    Modifier.padding(MARGIN),
    Arrangement.spacedBy(12.dp),
) {
    val threshold = state.settings.threshold
    val problem = state.sourceProblem
    if (problem != null) ProblemCard(problem) { host.act(it, send) }
    val first = state.shownResult
    val second = state.shownRivalResult
    comparisonOf(first, second, threshold)?.let {
        Text(
            LocalWording.current.comparison(it),
            Modifier.semantics { heading() },
            style = MaterialTheme.typography.titleMedium,
        )
    }
    val contenders = listOf<@Composable (Modifier) -> Unit>(
        { Contender(state.model, first, threshold, state.announcement, false, send, host, it) },
        { Contender(state.rival, second, threshold, null, true, send, host, it) },
    )
    if (hasLargeLetters()) {
        for (contender in contenders) contender(Modifier)
    } else {
        Row(horizontalArrangement = Arrangement.spacedBy(12.dp)) {
            for (contender in contenders) contender(Modifier.weight(1f))
        }
    }
}

/** One of the two models. */
@Composable
private fun Contender(
    model: Model?,
    result: Result,
    threshold: Int,
    announcement: Announcement?,
    isRival: Boolean,
    send: (Event) -> Unit,
    host: Host,
    modifier: Modifier,
) = Column(modifier, Arrangement.spacedBy(8.dp)) {
    val pick = { send(Event.PickModel(isRival)) }
    if (model != null) ModelChip(model, Modifier.fillMaxWidth(), onClick = pick)
    Box(Modifier.padding(horizontal = 4.dp)) {
        AnswerPart(result, threshold, announcement, isOneOfTwo = true)
    }
    if (result is Result.Failed) {
        ProblemCard(result.problem) {
            if (it == Action.CHOOSE_MODEL) pick() else host.act(it, send)
        }
    }
    result.answer?.let {
        Secondary(LocalWording.current.run(it), Modifier.padding(horizontal = 4.dp))
    }
}
