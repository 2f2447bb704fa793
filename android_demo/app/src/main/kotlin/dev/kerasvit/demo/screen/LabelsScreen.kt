package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Column
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
import androidx.compose.foundation.lazy.LazyListScope
import androidx.compose.material3.HorizontalDivider
import androidx.compose.material3.Icon
import androidx.compose.material3.IconButton
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.OutlinedTextField
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.compose.runtime.produceState
import androidx.compose.runtime.remember
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.core.LabelSearch
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.UiState
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.withContext

/**
 * The classes of the chosen model, which may be many thousands, and a search in them. A model of
 * features can have more of them, and those can be removed.
 */
@Composable
internal fun LabelsScreen(state: UiState, send: (Event) -> Unit, host: Host) {
    val wording = LocalWording.current
    val sides = WindowInsetsSides.Top + WindowInsetsSides.Horizontal
    Column(
        Modifier.fillMaxSize().windowInsetsPadding(WindowInsets.safeDrawing.only(sides))
            .padding(horizontal = MARGIN).padding(top = 8.dp),
    ) {
        state.model?.let { ModelChip(it) { send(Event.PickModel(rival = false)) } }
        if (state.model?.bundle?.description?.output?.map != null) {
            Secondary(wording.text(R.string.labels_of_map), Modifier.padding(vertical = 8.dp))
            return@Column
        }
        OutlinedTextField(
            state.settings.query,
            { send(Event.Search(it)) },
            Modifier.fillMaxWidth().padding(vertical = 8.dp),
            label = { Text(wording.text(R.string.labels_search)) },
            leadingIcon = { Icon(painterResource(R.drawable.ic_search), null) },
            singleLine = true,
        )
        val model = state.model ?: return@Column
        val bundle = model.bundle ?: return@Column
        val found = found(bundle.labels, state.settings.query) ?: return@Column
        Secondary(wording.said(found), Modifier.padding(vertical = 4.dp))
        val bottom = WindowInsets.safeDrawing.only(WindowInsetsSides.Bottom)
        LazyColumn(Modifier.fillMaxSize(), contentPadding = bottom.asPaddingValues()) {
            if (bundle.description.output.givesFeatures) {
                item { NewClass(state.isNamingClass, send, host) }
            }
            labels(found, model.addedPictures, wording) { send(Event.AskToRemoveClass(it)) }
        }
    }
}

/** Some of the [labels], by their numbers. */
private class Found(val labels: List<String>, val numbers: List<Int>)

/** Null until the first search has ended; until the next one has, what the one before it found. */
@Composable
private fun found(labels: List<String>, query: String): Found? {
    val search = remember(labels) { LabelSearch(labels) }
    val found by produceState<Found?>(null, search, query) {
        value = Found(labels, withContext(Dispatchers.Default) { search.find(query) })
    }
    return found
}

/** @param added how many pictures the user added to which classes */
private fun LazyListScope.labels(
    found: Found,
    added: Map<String, Int>,
    wording: Wording,
    remove: (name: String) -> Unit,
) {
    items(found.numbers.size) { place ->
        val number = found.numbers[place]
        if (place > 0) HorizontalDivider()
        val name = found.labels[number]
        val count = added[name]
        if (count == null) Label(name, wording.count(number))
        else AddedLabel(name, wording.addedPictures(count)) { remove(name) }
    }
}

private fun Wording.said(found: Found): String = when {
    found.labels.isEmpty() -> text(R.string.labels_of_no_classes)
    found.numbers.isEmpty() -> text(R.string.labels_none)
    else -> classes(found.numbers.size)
}

@Composable
private fun Label(name: String, number: String, modifier: Modifier = Modifier) = Row(
    modifier.fillMaxWidth().padding(vertical = 14.dp).semantics(mergeDescendants = true) {},
) {
    Text(name, Modifier.weight(1f), style = MaterialTheme.typography.bodyLarge)
    Secondary(number, Modifier.padding(start = 12.dp))
}

@Composable
private fun AddedLabel(name: String, pictures: String, remove: () -> Unit) = Row(
    verticalAlignment = Alignment.CenterVertically,
) {
    Label(name, pictures, Modifier.weight(1f))
    IconButton(remove) {
        val described = LocalWording.current.text(R.string.model_remove, name)
        Icon(painterResource(R.drawable.ic_remove), described)
    }
}
