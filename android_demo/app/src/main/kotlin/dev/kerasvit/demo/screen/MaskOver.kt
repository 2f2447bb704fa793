package dev.kerasvit.demo.screen

import androidx.compose.foundation.Canvas
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.Slider
import androidx.compose.runtime.Composable
import androidx.compose.runtime.remember
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.geometry.Rect
import androidx.compose.ui.graphics.FilterQuality
import androidx.compose.ui.graphics.asImageBitmap
import androidx.compose.ui.graphics.drawscope.scale
import androidx.compose.ui.semantics.Role
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.role
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.dp
import androidx.compose.ui.unit.roundToIntRect
import dev.kerasvit.android.bitmapOf
import dev.kerasvit.core.Mask
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import kotlin.math.roundToInt

/** A mask over the part of a picture that the model sees; [opacity] in percent. */
@Composable
internal fun MaskOver(mask: Mask, seen: Rect, opacity: Int, isMirrored: Boolean = false) {
    val image = remember(mask) { bitmapOf(mask).asImageBitmap() }
    val name = LocalWording.current.shown(mask)
    Canvas(
        Modifier.fillMaxSize().semantics {
            contentDescription = name
            role = Role.Image
        },
    ) {
        val place = seen.roundToIntRect()
        scale(if (isMirrored) -1f else 1f, 1f, seen.center) {
            drawImage(
                image,
                dstOffset = place.topLeft,
                dstSize = place.size,
                alpha = opacity / 100f,
                // Between two classes there is no third one's colour.
                filterQuality = FilterQuality.None,
            )
        }
    }
}

/** How much of the picture a mask covers up. */
@Composable
internal fun Opacity(percent: Int, send: (Event) -> Unit) = Row(
    verticalAlignment = Alignment.CenterVertically,
) {
    val wording = LocalWording.current
    Secondary(wording.text(R.string.mask_opacity, wording.percents(percent)))
    val name = wording.text(R.string.mask_opacity_label)
    Slider(
        value = percent.toFloat(),
        onValueChange = { send(Event.ChooseOpacity(it.roundToInt())) },
        Modifier.weight(1f).padding(start = 12.dp).semantics { contentDescription = name },
        valueRange = 0f..100f,
        steps = 19, // Five percent each.
    )
}
