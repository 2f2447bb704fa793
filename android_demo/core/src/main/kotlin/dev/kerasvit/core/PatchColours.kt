package dev.kerasvit.core

import kotlin.math.abs
import kotlin.math.atan2
import kotlin.math.cos
import kotlin.math.sin
import kotlin.math.sqrt

/**
 * A feature map as a picture, as in figure 1 of DINOv2 (Oquab et al., 2023): patches of similar
 * features have similar colours, whose red, green and blue are the first principal components.
 *
 * @property rgb red, green and blue of each patch, row by row, from 0 to 1
 * @property fractions the parts of the variance in red, green and blue. There are fewer where a
 *     component would have less than 1%: such a colour is 0.5 in each patch
 */
class PatchColours(
    val rows: Int,
    val columns: Int,
    val rgb: FloatArray,
    val fractions: List<Double>,
)

/**
 * Computes [PatchColours]. For one thread; allocates nothing after its construction.
 *
 * Subspace iteration with more directions than are wanted, because the third and the fourth may
 * have nearly the same variance.
 */
internal class PatchComponents(private val map: MapShape) {
    private val patches = map.rows * map.columns
    private val searched = minOf(SEARCHED, patches, map.features)
    private val centred = DoubleArray(map.size)
    private val directions = Array(searched) { DoubleArray(map.features) }
    private val next = Array(searched) { DoubleArray(map.features) }
    private val values = Array(searched) { DoubleArray(patches) }
    private val sorted = DoubleArray(patches)
    private val rgb = FloatArray(patches * COLOURS)
    private val fractions = DoubleArray(COLOURS)

    /** Number of [directions] in use. */
    private var count = 0
    private var found = 0

    fun compute(features: FloatArray) {
        centre(features)
        val whole = product(centred, 0, centred)
        rgb.fill(0.5f)
        begin(whole)
        iterate()
        found = 0
        while (found < minOf(COLOURS, count)) {
            fractions[found] = product(values[found], 0, values[found]) / whole
            if (fractions[found] < LEAST_FRACTION) break
            paint(found)
            found++
        }
    }

    /** A copy of the last result. */
    fun colours() = PatchColours(map.rows, map.columns, rgb.copyOf(), fractions.take(found))

    private fun centre(features: FloatArray) {
        val mean = next[0]
        mean.fill(0.0)
        for (start in features.indices step map.features) {
            for (i in mean.indices) mean[i] += features[start + i].toDouble()
        }
        for (i in mean.indices) mean[i] /= patches.toDouble()
        for (start in features.indices step map.features) {
            for (i in mean.indices) centred[start + i] = features[start + i] - mean[i]
        }
    }

    /** Begins with the directions of patches that are far apart, and the values along them. */
    private fun begin(whole: Double) {
        val left = sorted // of each patch, the square of what the directions leave of it
        for (patch in 0 until patches) left[patch] = square(patch)
        count = 0
        while (count < searched && left.sum() > ROUNDING * whole) {
            var farthest = 0
            for (patch in 0 until patches) if (left[patch] > left[farthest]) farthest = patch
            val start = farthest * map.features
            centred.copyInto(directions[count], 0, start, start + map.features)
            makeUnit(directions, count)
            project(count)
            for (patch in 0 until patches) {
                left[patch] = maxOf(left[patch] - values[count][patch] * values[count][patch], 0.0)
            }
            count++
        }
    }

    private fun iterate() {
        repeat(MOST_STEPS) {
            turn()
            combine()
            for (k in 0 until count) makeUnit(next, k)
            if (isNear()) return
            for (k in 0 until count) {
                next[k].copyInto(directions[k])
                project(k)
            }
        }
        turn()
    }

    /** Whether the wanted directions did not change in the last step. */
    private fun isNear(): Boolean {
        for (k in 0 until minOf(COLOURS, count)) {
            if (1 - abs(product(directions[k], 0, next[k])) >= ENOUGH) return false
        }
        return true
    }

    /** Turns directions within the space that they span, until their values do not correlate. */
    private fun turn() {
        for (i in 0 until count) {
            for (j in i + 1 until count) {
                val a = values[i]
                val b = values[j]
                val difference = product(a, 0, a) - product(b, 0, b)
                val angle = atan2(2 * product(a, 0, b), difference) / 2 // a gets more variance
                rotate(a, b, angle)
                rotate(directions[i], directions[j], angle)
            }
        }
    }

    /** [next] becomes the covariance, which is never computed, times the directions. */
    private fun combine() {
        for (k in 0 until count) next[k].fill(0.0)
        for (patch in 0 until patches) {
            val start = patch * map.features
            for (k in 0 until count) {
                val sum = next[k]
                val value = values[k][patch]
                for (i in sum.indices) sum[i] += value * centred[start + i]
            }
        }
    }

    private fun square(patch: Int): Double {
        var sum = 0.0
        for (i in patch * map.features until (patch + 1) * map.features) {
            sum += centred[i] * centred[i]
        }
        return sum
    }

    private fun project(k: Int) {
        for (patch in 0 until patches) {
            values[k][patch] = product(centred, patch * map.features, directions[k])
        }
    }

    /** From the 2nd to the 98th percentile of a component's values, the colour goes from 0 to 1. */
    private fun paint(component: Int) {
        val own = values[component]
        // A direction has no sign; here its entry of the largest magnitude is positive.
        var largest = 0.0
        for (entry in directions[component]) if (abs(entry) > abs(largest)) largest = entry
        if (largest < 0) for (patch in own.indices) own[patch] = -own[patch]
        own.copyInto(sorted)
        sorted.sort()
        val low = percentile(0.02)
        val range = percentile(0.98) - low
        val divisor = if (range > 0) range else 1.0
        for (patch in 0 until patches) {
            val colour = ((own[patch] - low) / divisor).coerceIn(0.0, 1.0)
            rgb[patch * COLOURS + component] = colour.toFloat()
        }
    }

    // Between two values on a straight line, as numpy.percentile does by default.
    private fun percentile(fraction: Double): Double {
        val place = fraction * (patches - 1)
        val below = place.toInt()
        val above = minOf(below + 1, patches - 1)
        return sorted[below] + (place - below) * (sorted[above] - sorted[below])
    }
}

/** Makes vector [k] orthogonal to those before it, and of length 1. */
private fun makeUnit(vectors: Array<DoubleArray>, k: Int) {
    val vector = vectors[k]
    for (earlier in 0 until k) {
        val part = product(vector, 0, vectors[earlier])
        for (i in vector.indices) vector[i] -= part * vectors[earlier][i]
    }
    val length = sqrt(product(vector, 0, vector))
    for (i in vector.indices) vector[i] /= length
}

private fun rotate(a: DoubleArray, b: DoubleArray, angle: Double) {
    val cosine = cos(angle)
    val sine = sin(angle)
    for (i in a.indices) {
        val old = a[i]
        a[i] = cosine * old + sine * b[i]
        b[i] = cosine * b[i] - sine * old
    }
}

/** Of [row], and the part of [values] from [start] on that is as long. */
private fun product(values: DoubleArray, start: Int, row: DoubleArray): Double {
    var one = 0.0
    var two = 0.0
    var three = 0.0
    var four = 0.0
    var i = 0
    // Four sums, which do not wait for each other, take little more than half the time of one.
    while (i + 3 < row.size) {
        one += values[start + i] * row[i]
        two += values[start + i + 1] * row[i + 1]
        three += values[start + i + 2] * row[i + 2]
        four += values[start + i + 3] * row[i + 3]
        i += 4
    }
    while (i < row.size) one += values[start + i] * row[i++]
    return one + two + three + four
}

private const val COLOURS = 3
private const val LEAST_FRACTION = 0.01
private const val SEARCHED = 8
private const val MOST_STEPS = 25
private const val ENOUGH = 1e-12 // 1 - |cosine| of a direction in two steps
private const val ROUNDING = 1e-12 // of the variance
