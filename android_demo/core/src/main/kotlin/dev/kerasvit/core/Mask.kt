package dev.kerasvit.core

/**
 * The class of each pixel of what a model sees of an image.
 *
 * @property width as many columns as the model's input has
 * @property classes of each pixel, row by row, its class: a place in [labels]
 * @property shares the classes that have pixels, the largest share first
 * @property seen the part of the image that the mask covers
 */
class Mask(
    val width: Int,
    val height: Int,
    val classes: IntArray,
    val labels: List<String>,
    val shares: List<ClassShare>,
    val seen: CropBox,
)

/** A class of a mask and its part of the pixels. */
data class ClassShare(val classIndex: Int, val label: String, val share: Double)

/**
 * The colours of classes in masks, as Android's `ColorInt`; 0, which is transparent, of a
 * "background". They are those of PASCAL VOC's masks: the bits of a class, from the lowest on, are
 * in turn the highest bits of red, green and blue that are left.
 */
fun classColours(labels: List<String>): IntArray {
    // Black, the first, is only for a background.
    val first = if (labels.firstOrNull() == BACKGROUND) 0 else 1
    return IntArray(labels.size) {
        if (labels[it] == BACKGROUND) 0 else colourOf((first + it) % MOST_COLOURS)
    }
}

private fun colourOf(number: Int): Int {
    var colour = 0xFF // opaque
    for (channel in 0 until CHANNELS) {
        var level = 0
        for (k in 0 until CHANNELS) level += (number shr CHANNELS * k + channel and 1) shl 7 - k
        colour = colour shl 8 or level
    }
    return colour
}

private const val BACKGROUND = "background"
private const val MOST_COLOURS = 256
