package dev.kerasvit.demo.screen

import android.graphics.Bitmap
import androidx.compose.foundation.Canvas
import androidx.compose.foundation.background
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.BoxScope
import androidx.compose.foundation.layout.BoxWithConstraints
import androidx.compose.foundation.layout.PaddingValues
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.size
import androidx.compose.material3.Icon
import androidx.compose.runtime.Composable
import androidx.compose.runtime.remember
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.clipToBounds
import androidx.compose.ui.draw.drawBehind
import androidx.compose.ui.geometry.Offset
import androidx.compose.ui.geometry.Rect
import androidx.compose.ui.geometry.Size
import androidx.compose.ui.graphics.ClipOp
import androidx.compose.ui.graphics.Color
import androidx.compose.ui.graphics.FilterQuality
import androidx.compose.ui.graphics.ImageBitmap
import androidx.compose.ui.graphics.asImageBitmap
import androidx.compose.ui.graphics.drawscope.DrawScope
import androidx.compose.ui.graphics.drawscope.Stroke
import androidx.compose.ui.graphics.drawscope.clipRect
import androidx.compose.ui.layout.layout
import androidx.compose.ui.platform.LocalDensity
import androidx.compose.ui.platform.LocalLayoutDirection
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.semantics.Role
import androidx.compose.ui.semantics.contentDescription
import androidx.compose.ui.semantics.role
import androidx.compose.ui.semantics.semantics
import androidx.compose.ui.unit.Constraints
import androidx.compose.ui.unit.dp
import androidx.compose.ui.unit.roundToIntRect
import dev.kerasvit.core.CropBox
import dev.kerasvit.core.Mask
import dev.kerasvit.demo.R
import dev.kerasvit.demo.source.BitmapPreview
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.FrameSize
import dev.kerasvit.demo.state.UiState

/**
 * What is classified: a picture, or what the camera sees. What the model leaves out is dimmed.
 *
 * @param mask drawn over what the model sees
 * @param covered what lies over this pane at its edges
 * @param above what is laid over the picture
 */
@Composable
internal fun PicturePane(
    state: UiState,
    host: Host,
    modifier: Modifier = Modifier,
    covered: PaddingValues = PaddingValues(),
    mask: Mask? = null,
    above: @Composable BoxScope.() -> Unit,
) = BoxWithConstraints(modifier.clipToBounds().background(Color.Black)) {
    val window = Size(constraints.maxWidth.toFloat(), constraints.maxHeight.toFloat())
    val free = freeOf(window, covered)
    val bitmap = (state.preview as? BitmapPreview)?.bitmap
    if (state.wantedCamera != null) {
        val frame = state.frame ?: UNKNOWN_FRAME
        val place = placeOf(state, frame, window, free)
        val name = LocalWording.current.text(R.string.camera_shown)
        host.Camera(Modifier.at(place.picture).semantics { contentDescription = name })
        // The system shows a front camera's picture as a mirror does; the model sees it as it is.
        val isMirrored = state.wantedCamera == Facing.FRONT
        if (mask != null) MaskOver(mask, place.seen, state.settings.opacity, isMirrored)
        Crop(place)
    } else if (bitmap != null) {
        val place = placeOf(state, FrameSize(bitmap.width, bitmap.height), window, free)
        Picture(bitmap, place.picture)
        if (mask != null) MaskOver(mask, place.seen, state.settings.opacity)
        Crop(place)
    } else {
        Icon(
            painterResource(R.drawable.ic_picture),
            contentDescription = null,
            Modifier.padding(covered).align(Alignment.Center).size(48.dp),
            tint = Color.Gray,
        )
    }
    above()
}

@Composable
private fun freeOf(window: Size, covered: PaddingValues): Rect = with(LocalDensity.current) {
    val direction = LocalLayoutDirection.current
    Rect(
        covered.calculateLeftPadding(direction).toPx(),
        covered.calculateTopPadding().toPx(),
        window.width - covered.calculateRightPadding(direction).toPx(),
        window.height - covered.calculateBottomPadding().toPx(),
    )
}

private fun placeOf(state: UiState, size: FrameSize, window: Size, free: Rect): PicturePlace {
    val whole = Size(size.width.toFloat(), size.height.toFloat())
    val box = state.model?.bundle?.let { CropBox(size.width, size.height, it.description.input) }
    val seen = box?.run { Rect(left, top, right, bottom) } ?: Rect(Offset.Zero, whole)
    return placeOf(whole, seen, window, free)
}

/** The pixels that the model gets, in front of a blurred copy that fills the window. */
@Composable
private fun Picture(bitmap: Bitmap, place: Rect) {
    val name = LocalWording.current.text(R.string.picture_shown)
    val image = remember(bitmap) { bitmap.asImageBitmap() }
    val blurred = remember(bitmap) { blurred(bitmap).asImageBitmap() }
    Canvas(
        Modifier.fillMaxSize().semantics {
            contentDescription = name
            role = Role.Image
        },
    ) {
        val bitmapSize = Size(bitmap.width.toFloat(), bitmap.height.toFloat())
        draw(blurred, filling(bitmapSize, size), FilterQuality.Medium)
        drawRect(DIMMED)
        draw(image, place, image.sharpness)
    }
}

private fun DrawScope.draw(image: ImageBitmap, place: Rect, quality: FilterQuality) {
    val whole = place.roundToIntRect()
    drawImage(image, dstOffset = whole.topLeft, dstSize = whole.size, filterQuality = quality)
}

/** Shows the pixels of a tiny picture as they are: blurred, they would not be the model's. */
internal val ImageBitmap.sharpness: FilterQuality
    get() = if (maxOf(width, height) <= TINY) FilterQuality.None else FilterQuality.Medium

private fun blurred(bitmap: Bitmap): Bitmap {
    val scale = BLURRED_SIDE / maxOf(bitmap.width, bitmap.height)
    val width = (bitmap.width * scale).toInt().coerceAtLeast(1)
    val height = (bitmap.height * scale).toInt().coerceAtLeast(1)
    return Bitmap.createScaledBitmap(bitmap, width, height, true)
}

@Composable
private fun Crop(place: PicturePlace) {
    if (place.seen == place.picture) return
    Box(
        Modifier.fillMaxSize().drawBehind {
            val (left, top, right, bottom) = place.seen
            clipRect(left, top, right, bottom, ClipOp.Difference) { drawRect(DIMMED) }
            val edge = Stroke(1.5.dp.toPx())
            drawRect(Color.White, place.seen.topLeft, place.seen.size, style = edge)
        },
    )
}

private fun Modifier.at(place: Rect): Modifier = layout { measurable, constraints ->
    val whole = place.roundToIntRect()
    val placeable = measurable.measure(Constraints.fixed(whole.width, whole.height))
    layout(constraints.maxWidth, constraints.maxHeight) { placeable.place(whole.topLeft) }
}

/** Most cameras' frames, upright. */
internal val UNKNOWN_FRAME = FrameSize(3, 4)
private val DIMMED = Color.Black.copy(alpha = 0.5f)
private const val TINY = 64
private const val BLURRED_SIDE = 10f
