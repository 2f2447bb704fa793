package dev.kerasvit.core

import kotlin.math.ceil
import kotlin.math.floor

/**
 * Computes a [Mask] of an output of the shape [shape]. For one thread; allocates nothing after its
 * construction, except for the copy.
 */
internal class PixelClasses(
    private val shape: MaskShape,
    private val input: Input,
    private val labels: List<String>,
) {
    private val own = IntArray(shape.rows * shape.columns)
    private val classes = IntArray(input.height * input.width)
    private val counts = IntArray(shape.classes)
    private val down = Neighbours(shape.rows, input.height)
    private val across = Neighbours(shape.columns, input.width)

    /** @return whether all of a class map are classes; otherwise nothing was computed */
    fun compute(values: FloatArray): Boolean {
        findClasses(values, shape, own)
        for (each in own) if (each >= shape.classes) return false
        if (shape.isClassMap) enlarge() else interpolate(values)
        counts.fill(0)
        for (each in classes) counts[each]++
        return true
    }

    /** A copy of the last result, that of an image of this size. */
    fun mask(imageWidth: Int, imageHeight: Int): Mask {
        val found = counts.indices.filter { counts[it] > 0 }.sortedByDescending { counts[it] }
        val shares = found.map { ClassShare(it, labels[it], counts[it].toDouble() / classes.size) }
        val seen = CropBox(imageWidth, imageHeight, input)
        return Mask(input.width, input.height, classes.copyOf(), labels, shares, seen)
    }

    private fun enlarge() {
        for (y in 0 until input.height) {
            val row = down.nearest[y] * shape.columns
            for (x in 0 until input.width) {
                classes[y * input.width + x] = own[row + across.nearest[x]]
            }
        }
    }

    // Between four places of the same class no other one can have a higher score.
    private fun interpolate(scores: FloatArray) {
        for (y in 0 until input.height) {
            val above = down.before[y] * shape.columns
            val below = down.after[y] * shape.columns
            for (x in 0 until input.width) {
                val left = across.before[x]
                val right = across.after[x]
                val first = own[above + left]
                val isInside = first == own[above + right] && first == own[below + left] &&
                    first == own[below + right]
                classes[y * input.width + x] =
                    if (isInside) first
                    else best(scores, above, below, left, right, across.part[x], down.part[y])
            }
        }
    }

    private fun best(
        scores: FloatArray,
        above: Int,
        below: Int,
        left: Int,
        right: Int,
        partAcross: Float,
        partDown: Float,
    ): Int {
        val count = shape.classes
        var best = 0
        var highest = Float.NEGATIVE_INFINITY
        for (k in 0 until count) {
            val top = between(
                scores[(above + left) * count + k],
                scores[(above + right) * count + k],
                partAcross,
            )
            val bottom = between(
                scores[(below + left) * count + k],
                scores[(below + right) * count + k],
                partAcross,
            )
            val score = between(top, bottom, partDown)
            if (score > highest) {
                highest = score
                best = k
            }
        }
        return best
    }
}

/** The class of each place of an output: that of a class map, or of the first highest score. */
internal fun findClasses(values: FloatArray, shape: MaskShape, into: IntArray) {
    for (place in into.indices) {
        if (shape.isClassMap) into[place] = values[place].toInt()
        else into[place] = firstHighest(values, place * shape.classes, shape.classes)
    }
}

private fun firstHighest(scores: FloatArray, start: Int, count: Int): Int {
    var best = 0
    for (k in 1 until count) if (scores[start + k] > scores[start + best]) best = k
    return best
}

/** Which of [size] values of a line each of [places] lies between, as in `tf.image.resize`. */
private class Neighbours(size: Int, places: Int) {
    val before = IntArray(places)
    val after = IntArray(places)

    /** How far it is from [before] to [after]. */
    val part = FloatArray(places)
    val nearest = IntArray(places)

    init {
        val scale = size / places.toFloat()
        for (place in 0 until places) {
            val exact = (place + 0.5f) * scale - 0.5f
            before[place] = floor(exact).toInt().coerceAtLeast(0)
            after[place] = ceil(exact).toInt().coerceAtMost(size - 1)
            part[place] = exact - floor(exact)
            nearest[place] = ((2L * place + 1) * size / (2L * places)).toInt()
        }
    }
}

private fun between(one: Float, other: Float, part: Float): Float = one + (other - one) * part
