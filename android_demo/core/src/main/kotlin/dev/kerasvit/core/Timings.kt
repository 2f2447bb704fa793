package dev.kerasvit.core

/**
 * The newest durations of a repeated step. The first [warmUp] are left out: they include what is
 * done once. For one thread.
 */
class Timings(capacity: Int = 100, private val warmUp: Int = 3) {
    private val newest = LongArray(capacity)
    private val sorted = LongArray(capacity)
    private var added = 0L

    /** How many durations the median is of. */
    val count: Int get() = (added - warmUp).coerceIn(0, newest.size.toLong()).toInt()

    /** Adds a duration in nanoseconds; allocates nothing. */
    fun add(nanos: Long) {
        val place = added++ - warmUp
        if (place >= 0) newest[(place % newest.size).toInt()] = nanos
    }

    /** Forgets all durations, as when another image size begins. */
    fun clear() {
        added = 0
    }

    /** Milliseconds; NaN if [count] is 0. */
    fun median(): Double = percentile(0.5)

    /** The duration that 90% stay below, in milliseconds; NaN if [count] is 0. */
    fun p90(): Double = percentile(0.9)

    // Between two durations on a straight line, as numpy.percentile does by default.
    private fun percentile(fraction: Double): Double {
        val count = count
        if (count == 0) return Double.NaN
        newest.copyInto(sorted, endIndex = count)
        sorted.sort(0, count)
        val place = fraction * (count - 1)
        val below = place.toInt()
        val above = minOf(below + 1, count - 1)
        val nanos = sorted[below] + (place - below) * (sorted[above] - sorted[below])
        return nanos / 1e6
    }
}
