package dev.kerasvit.demo.screen

import android.graphics.Bitmap
import android.graphics.Color
import androidx.compose.foundation.Image
import androidx.compose.foundation.layout.aspectRatio
import androidx.compose.foundation.layout.heightIn
import androidx.compose.foundation.layout.padding
import androidx.compose.runtime.Composable
import androidx.compose.runtime.remember
import androidx.compose.ui.Modifier
import androidx.compose.ui.graphics.FilterQuality
import androidx.compose.ui.graphics.asImageBitmap
import androidx.compose.ui.layout.ContentScale
import androidx.compose.ui.unit.dp
import dev.kerasvit.core.PatchColours
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Patches

/** The colours of a feature map, and what they mean; [model] as in `Probability`. */
@Composable
internal fun PatchPart(patches: Patches, model: String?) {
    val wording = LocalWording.current
    Image(
        remember(patches) { bitmapOf(patches.colours).asImageBitmap() },
        wording.spoken(model, wording.shown(patches.colours), number = null),
        Modifier.heightIn(max = 200.dp).aspectRatio(patches.aspect),
        contentScale = ContentScale.FillBounds,
        // Between two patches the model tells nothing.
        filterQuality = FilterQuality.None,
    )
    Secondary(wording.text(R.string.patches_meaning), Modifier.padding(top = 8.dp))
}

/** One pixel for each patch. */
private fun bitmapOf(colours: PatchColours): Bitmap {
    val (rows, columns) = colours.run { rows to columns }
    val argb = IntArray(rows * columns) {
        val (red, green, blue) = List(3) { channel -> colours.rgb[it * 3 + channel] }
        Color.rgb(red, green, blue)
    }
    return Bitmap.createBitmap(argb, columns, rows, Bitmap.Config.ARGB_8888)
}
