package dev.kerasvit.demo.screen

import androidx.compose.foundation.Image
import androidx.compose.foundation.background
import androidx.compose.foundation.border
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.aspectRatio
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.heightIn
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.size
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.remember
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.graphics.Color
import androidx.compose.ui.graphics.FilterQuality
import androidx.compose.ui.graphics.asImageBitmap
import androidx.compose.ui.layout.ContentScale
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import dev.kerasvit.android.bitmapOf
import dev.kerasvit.core.ClassShare
import dev.kerasvit.core.Mask
import dev.kerasvit.core.classColours

/** The classes of a mask; [model] as in `Probability`: then the mask is no picture's overlay. */
@Composable
internal fun MaskPart(mask: Mask, model: String?) {
    val wording = LocalWording.current
    if (model != null) SmallMask(mask, model)
    val colours = remember(mask.labels) { classColours(mask.labels) }
    for (share in mask.shares.take(SHOWN)) Share(share, Color(colours[share.classIndex]), model)
    val others = mask.shares.drop(SHOWN)
    if (others.isNotEmpty()) Secondary(wording.others(others), Modifier.padding(top = 8.dp))
}

@Composable
private fun SmallMask(mask: Mask, model: String) = Image(
    remember(mask) { bitmapOf(mask).asImageBitmap() },
    LocalWording.current.run { spoken(model, shown(mask), number = null) },
    Modifier.heightIn(max = 200.dp)
        .aspectRatio(mask.seen.run { (right - left) / (bottom - top) })
        .background(MaterialTheme.colorScheme.surfaceContainerHighest),
    contentScale = ContentScale.FillBounds,
    filterQuality = FilterQuality.None,
)

/** A background has no [colour], but the edge of its box. */
@Composable
private fun Share(share: ClassShare, colour: Color, model: String?) {
    val wording = LocalWording.current
    val described = wording.spoken(model, share.label, share.share)
    Row(
        Modifier.fillMaxWidth().padding(top = 8.dp).semantics(mergeDescendants = true) {
            contentDescription = described
        },
        verticalAlignment = Alignment.CenterVertically,
    ) {
        val edge = MaterialTheme.colorScheme.outline
        Box(Modifier.size(16.dp).background(colour).border(1.dp, edge))
        val style = MaterialTheme.typography.bodyMedium
        Text(share.label, Modifier.weight(1f).padding(horizontal = 8.dp), style = style)
        Text(wording.probability(share.share), style = style.tabular())
    }
}

private const val SHOWN = 8
