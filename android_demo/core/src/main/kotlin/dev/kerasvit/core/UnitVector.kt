package dev.kerasvit.core

import kotlin.math.sqrt

/** Divides a vector by its length, in float64; zeros stay zeros. */
internal fun unit(vector: FloatArray, into: DoubleArray) {
    for (i in vector.indices) into[i] = vector[i].toDouble()
    unit(into, 0, into.size)
}

/** Divides the part of [values] from [start] on by its length; zeros stay zeros. */
internal fun unit(values: DoubleArray, start: Int, size: Int) {
    var sum = 0.0
    for (i in start until start + size) sum += values[i] * values[i]
    val length = sqrt(sum)
    if (length > 0) for (i in start until start + size) values[i] /= length
}
