package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.FlowRow
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.size
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.clip
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.heading
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Similar

/** The pictures that an answer's picture is most like; [model] as in `Probability`. */
@Composable
internal fun SimilarPart(similar: List<Similar>, model: String?) {
    val wording = LocalWording.current
    if (similar.isEmpty()) {
        Secondary(wording.text(R.string.similar_none))
        return
    }
    Text(
        wording.text(R.string.similar_title),
        Modifier.padding(top = 12.dp, bottom = 6.dp).semantics { heading() },
        style = MaterialTheme.typography.titleSmall,
    )
    FlowRow(
        horizontalArrangement = Arrangement.spacedBy(8.dp),
        verticalArrangement = Arrangement.spacedBy(8.dp),
    ) {
        for (each in similar) SimilarPicture(each, model)
    }
}

@Composable
private fun SimilarPicture(similar: Similar, model: String?) {
    val wording = LocalWording.current
    val number = wording.similarity(similar.similarity)
    val described = wording.spoken(model, similar.name, number)
    Column(
        Modifier.semantics(mergeDescendants = true) { contentDescription = described },
        horizontalAlignment = Alignment.CenterHorizontally,
    ) {
        Thumbnail(similar.thumbnail, Modifier.size(56.dp).clip(MaterialTheme.shapes.medium))
        Text(number, style = MaterialTheme.typography.bodySmall.tabular())
    }
}
