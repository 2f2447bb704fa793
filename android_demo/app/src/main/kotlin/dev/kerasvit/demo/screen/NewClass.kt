package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.FlowRow
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.Button
import androidx.compose.material3.Icon
import androidx.compose.material3.OutlinedButton
import androidx.compose.material3.OutlinedCard
import androidx.compose.material3.OutlinedTextField
import androidx.compose.material3.Text
import androidx.compose.material3.TextButton
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.saveable.rememberSaveable
import androidx.compose.runtime.setValue
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event

/** Another class for a model of features: its name first, then its pictures. */
@Composable
internal fun NewClass(isNaming: Boolean, send: (Event) -> Unit, host: Host) {
    if (isNaming) {
        Naming({ send(Event.NameClass(false)) }, host::choosePictures)
    } else {
        OutlinedButton({ send(Event.NameClass(true)) }) {
            Icon(painterResource(R.drawable.ic_add), null, Modifier.padding(end = 8.dp))
            Text(LocalWording.current.text(R.string.class_new))
        }
    }
}

@Composable
private fun Naming(close: () -> Unit, choosePictures: (name: String) -> Unit) = OutlinedCard(
    Modifier.fillMaxWidth().padding(vertical = 4.dp),
) {
    val wording = LocalWording.current
    var text by rememberSaveable { mutableStateOf("") }
    val name = text.trim()
    Column(Modifier.padding(MARGIN), Arrangement.spacedBy(8.dp)) {
        OutlinedTextField(
            text,
            { text = it.take(MOST_LETTERS) },
            Modifier.fillMaxWidth(),
            label = { Text(wording.text(R.string.class_name)) },
            singleLine = true,
        )
        Secondary(wording.text(R.string.class_new_body))
        FlowRow(Modifier.fillMaxWidth(), Arrangement.spacedBy(8.dp, Alignment.End)) {
            TextButton(close) { Text(wording.text(R.string.cancel)) }
            val choose = {
                close()
                choosePictures(name)
            }
            Button(choose, enabled = name.isNotEmpty()) {
                Text(wording.text(R.string.class_choose_pictures))
            }
        }
    }
}

private const val MOST_LETTERS = 64
