package dev.kerasvit.android

import android.graphics.Bitmap
import dev.kerasvit.core.Mask
import dev.kerasvit.core.classColours

/**
 * A mask in the colours of its classes; a "background" is transparent. It is to be drawn over
 * [Mask.seen] of the picture, without a filter, which would make third colours between two classes.
 */
fun bitmapOf(mask: Mask): Bitmap {
    val colours = classColours(mask.labels)
    val argb = IntArray(mask.classes.size) { colours[mask.classes[it]] }
    return Bitmap.createBitmap(argb, mask.width, mask.height, Bitmap.Config.ARGB_8888)
}
