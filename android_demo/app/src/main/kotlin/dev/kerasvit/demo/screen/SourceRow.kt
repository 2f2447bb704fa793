package dev.kerasvit.demo.screen

import androidx.compose.foundation.BorderStroke
import androidx.compose.foundation.Image
import androidx.compose.foundation.border
import androidx.compose.foundation.horizontalScroll
import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.size
import androidx.compose.foundation.rememberScrollState
import androidx.compose.foundation.selection.selectable
import androidx.compose.material3.FilterChip
import androidx.compose.material3.FilterChipDefaults
import androidx.compose.material3.Icon
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Surface
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.remember
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.clip
import androidx.compose.ui.graphics.asImageBitmap
import androidx.compose.ui.layout.ContentScale
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.Role
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.role
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.source.BitmapPreview
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Preview
import dev.kerasvit.demo.state.Sample
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.UiState

/** Where pictures come from: camera, photos, the model's own picture, its samples. */
@Composable
internal fun SourceRow(
    state: UiState,
    send: (Event) -> Unit,
    host: Host,
    modifier: Modifier = Modifier,
) = Surface(modifier.fillMaxWidth(), color = MaterialTheme.colorScheme.surfaceContainer) {
    val source = state.settings.source
    Row(
        Modifier.horizontalScroll(rememberScrollState())
            .padding(horizontal = MARGIN, vertical = 6.dp),
        Arrangement.spacedBy(8.dp),
        Alignment.CenterVertically,
    ) {
        SourceChip(R.string.source_camera, R.drawable.ic_camera, source is Source.Camera) {
            host.chooseCamera(Facing.BACK)
        }
        SourceChip(R.string.source_picture, R.drawable.ic_picture, source is Source.Picture) {
            host.choosePhoto()
        }
        val described = LocalWording.current.text(R.string.source_golden_described)
        SourceChip(
            R.string.source_golden,
            R.drawable.ic_verify,
            source is Source.Golden,
            Modifier.semantics { contentDescription = described },
        ) {
            send(Event.ChooseSource(Source.Golden))
        }
        for (sample in state.pictured?.samples.orEmpty()) {
            val wanted = Source.Sample(sample.name)
            Thumbnail(sample, source == wanted) { send(Event.ChooseSource(wanted)) }
        }
    }
}

@Composable
private fun SourceChip(
    name: Int,
    icon: Int,
    isChosen: Boolean,
    modifier: Modifier = Modifier,
    onClick: () -> Unit,
) = FilterChip(
    isChosen,
    onClick,
    { Text(LocalWording.current.text(name)) },
    modifier.semantics { role = Role.RadioButton },
    leadingIcon = { Icon(painterResource(icon), null, Modifier.size(FilterChipDefaults.IconSize)) },
)

@Composable
private fun Thumbnail(sample: Sample, isChosen: Boolean, onClick: () -> Unit) {
    val shape = MaterialTheme.shapes.medium
    val colours = MaterialTheme.colorScheme
    val name = sample.name.substringBeforeLast('.')
    val described = LocalWording.current.text(R.string.source_sample, name)
    val border =
        if (isChosen) BorderStroke(3.dp, colours.primary) else BorderStroke(1.dp, colours.outline)
    val modifier = Modifier.size(48.dp).clip(shape).border(border, shape)
        .selectable(isChosen, role = Role.RadioButton, onClick = onClick)
        .semantics { contentDescription = described }
    Thumbnail(sample.thumbnail, modifier)
}

/** A small picture, or a symbol where there is none. */
@Composable
internal fun Thumbnail(preview: Preview?, modifier: Modifier) {
    val bitmap = (preview as? BitmapPreview)?.bitmap
    if (bitmap == null) {
        Icon(painterResource(R.drawable.ic_picture), null, modifier.padding(12.dp))
        return
    }
    val image = remember(bitmap) { bitmap.asImageBitmap() }
    Image(
        image,
        contentDescription = null,
        modifier,
        contentScale = ContentScale.Crop,
        filterQuality = image.sharpness,
    )
}
