package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.rememberScrollState
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.AlertDialog
import androidx.compose.material3.LinearProgressIndicator
import androidx.compose.material3.Text
import androidx.compose.material3.TextButton
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.semantics.clearAndSetSemantics
import androidx.compose.ui.window.DialogProperties
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Dialog
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Problem

/** Adding and removing models, and classes of them. */
@Composable
internal fun ModelDialog(dialog: Dialog, send: (Event) -> Unit) {
    val wording = LocalWording.current
    val close = { send(Event.CloseDialog) }
    when (dialog) {
        is Dialog.Offered -> Question(
            wording.text(R.string.zip_offered),
            wording.text(R.string.zip_offered_body),
            wording.text(R.string.zip_add),
            close,
        ) { send(Event.AddZip(dialog.uri)) }
        is Dialog.OfferedPushed -> Question(
            wording.text(R.string.zip_offered),
            wording.text(R.string.zip_pushed_body, dialog.zips.joinToString()),
            wording.text(R.string.zip_add),
            { send(Event.RefusePushed) },
        ) { send(Event.AddPushed) }
        is Dialog.Copying ->
            Progress(wording.text(R.string.zip_copying)) { send(Event.StopCopying) }
        is Dialog.Adding -> Progress(wording.text(R.string.zip_adding))
        is Dialog.NotAdded -> NotAdded(dialog.problem, close)
        is Dialog.Removing -> Question(
            wording.text(R.string.model_remove_question, dialog.model),
            wording.text(R.string.model_remove_body),
            wording.text(R.string.model_remove_yes),
            close,
        ) { send(Event.Remove(dialog.model)) }
        is Dialog.AddingPictures -> Progress(
            wording.text(R.string.class_adding, dialog.count, dialog.total),
            dialog.count.toFloat() / dialog.total,
        ) { send(Event.StopAddingPictures) }
        is Dialog.RemovingClass -> Question(
            wording.text(R.string.model_remove_question, dialog.name),
            wording.text(R.string.class_remove_body),
            wording.text(R.string.model_remove_yes),
            close,
        ) { send(Event.RemoveClass(dialog.name)) }
    }
}

@Composable
private fun Question(
    title: String,
    body: String,
    yes: String,
    close: () -> Unit,
    act: () -> Unit,
) = AlertDialog(
    onDismissRequest = close,
    confirmButton = { TextButton(act) { Text(yes) } },
    dismissButton = { TextButton(close) { Text(LocalWording.current.text(R.string.cancel)) } },
    title = { Text(title) },
    text = { Text(body) },
)

/**
 * Without [stop], it cannot be left: it ends by itself.
 *
 * @param part how much is done; null if this is not known
 */
@Composable
private fun Progress(
    title: String,
    part: Float? = null,
    stop: (() -> Unit)? = null,
) = AlertDialog(
    onDismissRequest = stop ?: {},
    confirmButton = {
        if (stop != null) TextButton(stop) { Text(LocalWording.current.text(R.string.cancel)) }
    },
    title = { Text(title) },
    text = {
        val whole = Modifier.fillMaxWidth().clearAndSetSemantics {}
        if (part == null) LinearProgressIndicator(whole)
        else LinearProgressIndicator({ part }, whole)
    },
    properties = DialogProperties(dismissOnClickOutside = false),
)

@Composable
private fun NotAdded(problem: Problem, close: () -> Unit) {
    val wording = LocalWording.current
    val text = wording.problem(problem)
    AlertDialog(
        onDismissRequest = close,
        confirmButton = { TextButton(close) { Text(wording.text(R.string.ok)) } },
        title = { Text(text.title) },
        text = {
            Column(Modifier.verticalScroll(rememberScrollState())) {
                Text(text.body)
                Detail(text.detail)
            }
        },
    )
}
