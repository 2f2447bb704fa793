package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.PaddingValues
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.WindowInsetsSides
import androidx.compose.foundation.layout.asPaddingValues
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.only
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.safeDrawing
import androidx.compose.foundation.layout.windowInsetsPadding
import androidx.compose.foundation.lazy.LazyColumn
import androidx.compose.foundation.lazy.items
import androidx.compose.foundation.selection.selectable
import androidx.compose.material3.Card
import androidx.compose.material3.CardDefaults
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.material3.Icon
import androidx.compose.material3.IconButton
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedButton
import androidx.compose.material3.Text
import androidx.compose.material3.TopAppBar
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.clip
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.Role
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.UiState

/** The models, to choose one, to add one, and to remove what was added. */
@OptIn(ExperimentalMaterial3Api::class)
@Composable
internal fun ModelsScreen(
    state: UiState,
    send: (Event) -> Unit,
    host: Host,
) = Column(Modifier.fillMaxSize()) {
    val wording = LocalWording.current
    TopAppBar(
        title = { Text(wording.text(R.string.screen_models), Modifier.semantics { heading() }) },
        navigationIcon = {
            IconButton({ send(Event.Back) }) {
                Icon(painterResource(R.drawable.ic_back), wording.text(R.string.back))
            }
        },
    )
    val settings = state.settings
    val chosen = if (settings.pickingRival) settings.rival else settings.model
    val bottom = WindowInsets.safeDrawing.only(WindowInsetsSides.Bottom).asPaddingValues()
    LazyColumn(
        Modifier.fillMaxSize()
            .windowInsetsPadding(WindowInsets.safeDrawing.only(WindowInsetsSides.Horizontal)),
        contentPadding =
            PaddingValues(MARGIN, 0.dp, MARGIN, MARGIN + bottom.calculateBottomPadding()),
        verticalArrangement = Arrangement.spacedBy(12.dp),
    ) {
        items(state.models.orEmpty(), key = { it.name }) { model ->
            ModelCard(model, model.name == chosen, send)
        }
        item { Adding(host::chooseZip) }
    }
}

@Composable
private fun ModelCard(model: Model, isChosen: Boolean, send: (Event) -> Unit) {
    val wording = LocalWording.current
    val colours = MaterialTheme.colorScheme
    Card(
        Modifier.fillMaxWidth().clip(MaterialTheme.shapes.medium)
            .selectable(isChosen, role = Role.RadioButton) {
                send(Event.ChooseModel(model.name))
            },
        colors = CardDefaults.cardColors(
            if (isChosen) colours.secondaryContainer else colours.surfaceContainerHigh,
            if (isChosen) colours.onSecondaryContainer else colours.onSurface,
        ),
    ) {
        Row(verticalAlignment = Alignment.CenterVertically) {
            Facts(model, Modifier.weight(1f).padding(MARGIN))
            if (model.isAdded) IconButton({ send(Event.AskToRemove(model.name)) }) {
                Icon(
                    painterResource(R.drawable.ic_remove),
                    wording.text(R.string.model_remove, model.name),
                )
            }
        }
    }
}

@Composable
private fun Facts(model: Model, modifier: Modifier) = Column(modifier) {
    val wording = LocalWording.current
    Text(model.name, style = MaterialTheme.typography.titleMedium)
    Text(wording.summary(model), style = MaterialTheme.typography.bodyMedium)
    val details = when {
        model.bundle != null -> wording.details(model.bundle)
        model.problem != null -> wording.problem(model.problem).body
        else -> return@Column
    }
    Text(details, Modifier.padding(top = 4.dp), style = MaterialTheme.typography.bodySmall)
}

@Composable
private fun Adding(chooseZip: () -> Unit) = Column {
    val wording = LocalWording.current
    OutlinedButton(chooseZip) {
        Icon(painterResource(R.drawable.ic_add), null, Modifier.padding(end = 8.dp))
        Text(wording.text(R.string.models_add))
    }
    Secondary(wording.text(R.string.models_add_hint))
}
