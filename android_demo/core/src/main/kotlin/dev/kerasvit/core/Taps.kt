package dev.kerasvit.core

import kotlin.math.abs
import kotlin.math.ceil

/** Fractional bits of the weights: 8 bits are for the pixel, and sums may exceed it twofold. */
internal const val BITS = 22

/**
 * Which input pixels of a line make each output pixel, and their weights, as Pillow computes them.
 *
 * @param size number of input pixels
 * @param start the edge of the part that is resized, in input pixels; end: the other edge
 * @param places number of output pixels
 */
internal class Taps(
    private val size: Int,
    private val start: Float,
    private val end: Float,
    private val places: Int,
    interpolation: Interpolation,
) {
    // Pillow subtracts in float32 and divides in float64.
    private val scale = (end - start).toDouble() / places
    private val widened = maxOf(scale, 1.0)
    private val support = if (interpolation == Interpolation.BICUBIC) 2 * widened else widened

    /** The largest number of input pixels; the distance between two outputs in [weights]. */
    val width = if (interpolation == Interpolation.NEAREST) 1 else ceil(support).toInt() * 2 + 1

    /** The first input pixel of each output pixel. */
    val first = IntArray(places)

    /** How many input pixels it is made of. */
    val count = IntArray(places)

    /** Their weights, with [BITS] fractional bits: those of output `i` begin at `i * width`. */
    val weights = IntArray(places * width)

    init {
        when (interpolation) {
            Interpolation.NEAREST -> copyNearest()
            Interpolation.BILINEAR -> weigh { x -> if (x < 1) 1 - x else 0.0 }
            Interpolation.BICUBIC -> weigh(::cubic)
            Interpolation.MEDIAPIPE -> error("MediaPipe has no taps; see MediaPipeResizer")
        }
    }

    private fun copyNearest() {
        // Summed step by step as in Pillow, because rounding decides at the edge of a pixel.
        var position = start + scale * 0.5
        for (place in 0 until places) {
            first[place] = position.toInt()
            count[place] = 1
            weights[place] = 1 shl BITS
            position += scale
        }
    }

    private inline fun weigh(filter: (Double) -> Double) {
        val exact = DoubleArray(width)
        val perPixel = 1 / widened
        for (place in 0 until places) {
            val centre = start + (place + 0.5) * scale
            val from = maxOf((centre - support + 0.5).toInt(), 0)
            val until = minOf((centre + support + 0.5).toInt(), size)
            first[place] = from
            count[place] = until - from
            var sum = 0.0
            for (pixel in from until until) {
                val weight = filter(abs((pixel - centre + 0.5) * perPixel))
                exact[pixel - from] = weight
                sum += weight
            }
            for (i in 0 until until - from) {
                val weight = if (sum != 0.0) exact[i] / sum else exact[i]
                weights[place * width + i] = fixed(weight)
            }
        }
    }
}

private fun cubic(x: Double): Double = when {
    x < 1 -> (1.5 * x - 2.5) * x * x + 1
    x < 2 -> (((x - 5) * x + 8) * x - 4) * -0.5
    else -> 0.0
}

private fun fixed(weight: Double): Int =
    (weight * (1 shl BITS) + if (weight < 0) -0.5 else 0.5).toInt()
