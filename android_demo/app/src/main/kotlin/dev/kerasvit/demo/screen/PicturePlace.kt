package dev.kerasvit.demo.screen

import androidx.compose.ui.geometry.Offset
import androidx.compose.ui.geometry.Rect
import androidx.compose.ui.geometry.Size

/** Where a picture is drawn, and in it the part that the model sees. */
internal data class PicturePlace(val picture: Rect, val seen: Rect)

/**
 * What the model sees is in the middle of [free], whole and as large as it can be, but no larger
 * than is needed to fill the [window] with the [picture].
 *
 * @param seen in pixels of the picture
 * @param free the part of the window over which nothing lies
 */
internal fun placeOf(picture: Size, seen: Rect, window: Size, free: Rect): PicturePlace {
    val filling = maxOf(window.width / picture.width, window.height / picture.height)
    val fitting = minOf(free.width / seen.width, free.height / seen.height)
    val scale = minOf(filling, fitting)
    val corner = free.center - seen.center * scale
    return PicturePlace(
        Rect(corner, picture * scale),
        Rect(corner + seen.topLeft * scale, seen.size * scale),
    )
}

/** Where a picture fills the whole window, whatever is lost at its edges. */
internal fun filling(picture: Size, window: Size): Rect {
    val scale = maxOf(window.width / picture.width, window.height / picture.height)
    val size = picture * scale
    return Rect(Offset((window.width - size.width) / 2, (window.height - size.height) / 2), size)
}
