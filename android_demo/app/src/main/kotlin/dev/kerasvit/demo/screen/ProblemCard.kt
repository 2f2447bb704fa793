package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.text.selection.SelectionContainer
import androidx.compose.material3.Button
import androidx.compose.material3.Card
import androidx.compose.material3.CardDefaults
import androidx.compose.material3.Icon
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.text.font.FontFamily
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Problem

/** A message with what can be done about it. */
@Composable
internal fun ProblemCard(
    problem: Problem,
    modifier: Modifier = Modifier,
    act: (Action) -> Unit,
) {
    val wording = LocalWording.current
    val text = wording.problem(problem)
    val colours = MaterialTheme.colorScheme
    Card(
        modifier.fillMaxWidth(),
        colors = CardDefaults.cardColors(colours.errorContainer, colours.onErrorContainer),
    ) {
        Column(Modifier.padding(MARGIN)) {
            Row {
                Icon(painterResource(R.drawable.ic_warning), null, Modifier.padding(end = 12.dp))
                Text(
                    text.title,
                    Modifier.semantics { heading() },
                    style = MaterialTheme.typography.titleMedium,
                )
            }
            Text(
                text.body,
                Modifier.padding(top = 4.dp),
                style = MaterialTheme.typography.bodyMedium,
            )
            Detail(text.detail)
            text.action?.let { action ->
                Button({ act(action) }, Modifier.padding(top = 12.dp)) {
                    Text(wording.text(action.label))
                }
            }
        }
    }
}

/** The technical words of a problem, if there are any, to be copied. */
@Composable
internal fun Detail(text: String) {
    if (text.isNotEmpty()) SelectionContainer {
        Text(
            text,
            Modifier.padding(top = 8.dp),
            fontFamily = FontFamily.Monospace,
            style = MaterialTheme.typography.bodySmall,
        )
    }
}
