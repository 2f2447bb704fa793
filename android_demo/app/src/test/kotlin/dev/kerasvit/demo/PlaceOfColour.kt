package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.Rect
import kotlin.math.abs

/** The smallest rectangle that holds all pixels of a colour, each channel within 1. */
fun placeOfColour(
    screen: Bitmap,
    colour: Int,
    within: Rect = Rect(0, 0, screen.width, screen.height),
): Rect? {
    var place: Rect? = null
    for (y in within.top until within.bottom) for (x in within.left until within.right) {
        if (!isNear(screen.getPixel(x, y), colour)) continue
        val pixel = Rect(x, y, x + 1, y + 1)
        place = place?.apply { union(pixel) } ?: pixel
    }
    return place
}

private fun isNear(one: Int, other: Int): Boolean =
    listOf(16, 8, 0).all { abs((one shr it and 0xFF) - (other shr it and 0xFF)) <= 1 }
