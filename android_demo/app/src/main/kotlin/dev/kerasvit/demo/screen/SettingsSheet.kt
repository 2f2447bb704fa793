package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.FlowRow
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.rememberScrollState
import androidx.compose.foundation.selection.selectableGroup
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.material3.FilterChip
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.ModalBottomSheet
import androidx.compose.material3.Slider
import androidx.compose.material3.Text
import androidx.compose.material3.rememberModalBottomSheetState
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.semantics.Role
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.role
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.engine.Backend
import kotlin.math.roundToInt

/** Backend, threads and, where classes are named, threshold. */
@OptIn(ExperimentalMaterial3Api::class)
@Composable
internal fun SettingsSheet(state: UiState, send: (Event) -> Unit) = ModalBottomSheet(
    onDismissRequest = { send(Event.ShowSettings(false)) },
    sheetState = rememberModalBottomSheetState(skipPartiallyExpanded = true),
) {
    val wording = LocalWording.current
    val settings = state.settings
    Column(
        Modifier.verticalScroll(rememberScrollState())
            .padding(horizontal = 24.dp).padding(bottom = 24.dp),
    ) {
        Title(wording.text(R.string.setting_backend))
        Choice(state.backends, settings.backend, wording::backend) { send(Event.ChooseBackend(it)) }
        if (Backend.NPU in state.backends) {
            Secondary(wording.text(R.string.setting_npu), Modifier.padding(top = 4.dp))
        }
        Title(wording.text(R.string.setting_threads))
        Choice(THREADS, settings.threads, wording::count) { send(Event.ChooseThreads(it)) }
        if (state.namesNoClasses) return@Column
        Title(wording.text(R.string.setting_threshold, wording.percents(settings.threshold)))
        val name = wording.text(R.string.setting_threshold_label)
        Slider(
            value = settings.threshold.toFloat(),
            onValueChange = { send(Event.ChooseThreshold(it.roundToInt())) },
            Modifier.semantics { contentDescription = name },
            valueRange = 0f..100f,
            steps = 19, // Five percent each.
        )
    }
}

@Composable
private fun Title(text: String) = Text(
    text,
    Modifier.padding(top = 12.dp, bottom = 4.dp).semantics { heading() },
    style = MaterialTheme.typography.titleMedium,
)

/** One of several values. */
@Composable
private fun <T> Choice(values: List<T>, chosen: T, name: (T) -> String, choose: (T) -> Unit) =
    FlowRow(Modifier.selectableGroup(), Arrangement.spacedBy(8.dp)) {
        for (value in values) {
            FilterChip(
                value == chosen,
                { choose(value) },
                { Text(name(value)) },
                Modifier.semantics { role = Role.RadioButton },
            )
        }
    }

private val THREADS = (1..4).toList()
