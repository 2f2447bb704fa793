package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.heightIn
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.Icon
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Surface
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.Role
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.role
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Model

/** The chosen model; opens the list of models. */
@Composable
internal fun ModelChip(
    model: Model,
    modifier: Modifier = Modifier,
    alpha: Float = 1f,
    onClick: () -> Unit,
) {
    val wording = LocalWording.current
    val summary = wording.summary(model)
    Surface(
        onClick,
        modifier.semantics {
            role = Role.Button
            contentDescription = wording.text(R.string.model_choose, "${model.name}, $summary")
        },
        shape = MaterialTheme.shapes.large,
        color = MaterialTheme.colorScheme.surfaceContainerHigh.copy(alpha = alpha),
    ) {
        Row(
            Modifier.heightIn(min = 48.dp).padding(start = 14.dp, end = 10.dp),
            Arrangement.SpaceBetween,
            Alignment.CenterVertically,
        ) {
            Column(Modifier.weight(1f, fill = false).padding(vertical = 5.dp)) {
                Text(model.name, style = MaterialTheme.typography.titleSmall)
                Text(summary, style = MaterialTheme.typography.bodySmall)
            }
            Icon(painterResource(R.drawable.ic_down), null, Modifier.padding(start = 4.dp))
        }
    }
}
