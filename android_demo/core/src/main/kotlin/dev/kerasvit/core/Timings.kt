package dev.kerasvit.core

/** The newest durations of a repeated step. For one thread. */
class Timings(capacity: Int = 100) {
    private val newest = LongArray(capacity)
    private val sorted = LongArray(capacity)
    private var added = 0L

    /** How many durations the median is of. */
    val count: Int get() = added.coerceAtMost(newest.size.toLong()).toInt()

    /** Adds a duration in nanoseconds; allocates nothing. */
    fun add(nanos: Long) {
        newest[(added++ % newest.size).toInt()] = nanos
    }

    /** Forgets all durations. */
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
