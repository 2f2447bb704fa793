package dev.kerasvit.demo.state

/**
 * What two models say of the same picture.
 *
 * @property classes null where a model knows none
 * @property speed null until it has been measured
 */
data class Comparison(val classes: Classes?, val speed: Speed?) {
    sealed class Classes {
        object Same : Classes()

        data class Different(val first: Named, val second: Named) : Classes()

        data class OnlyOne(val named: Named) : Classes()

        /** No class of either reaches the threshold. */
        object None : Classes()
    }

    data class Named(val model: String, val label: String)

    sealed class Speed {
        object Same : Speed()

        /** The other one takes [times] as long. */
        data class Faster(val model: String, val times: Double) : Speed()
    }
}

/** Null until both models have an answer, and while there is nothing to say. */
fun comparisonOf(first: Result, second: Result, threshold: Int): Comparison? {
    if (first !is Result.Answer || second !is Result.Answer) return null
    val haveClasses = first.rows.isNotEmpty() && second.rows.isNotEmpty()
    val classes = if (haveClasses) classesOf(first, second, threshold) else null
    return Comparison(classes, speedOf(first, second))
        .takeUnless { it.classes == null && it.speed == null }
}

private fun classesOf(
    first: Result.Answer,
    second: Result.Answer,
    threshold: Int,
): Comparison.Classes {
    val one = first.named(threshold)
    val other = second.named(threshold)
    return when {
        one == null && other == null -> Comparison.Classes.None
        one == null || other == null -> Comparison.Classes.OnlyOne(checkNotNull(one ?: other))
        one.label == other.label -> Comparison.Classes.Same
        else -> Comparison.Classes.Different(one, other)
    }
}

private fun Result.Answer.named(threshold: Int): Comparison.Named? =
    rows.firstOrNull()?.takeIf { it.isNamed(threshold) }?.let { Comparison.Named(model, it.label) }

private fun speedOf(first: Result.Answer, second: Result.Answer): Comparison.Speed? {
    if (minOf(first.times.count, second.times.count) < ENOUGH_RUNS) return null
    val (fast, slow) = listOf(first, second).sortedBy { it.times.inference.median }
    val times = slow.times.inference.median / fast.times.inference.median
    if (!times.isFinite()) return null
    return if (times < NOTICEABLE) Comparison.Speed.Same
    else Comparison.Speed.Faster(fast.model, times)
}

// Of fewer, the median is little more than one measurement.
private const val ENOUGH_RUNS = 3

// Less is within what the same model differs by from one measurement to the next.
private const val NOTICEABLE = 1.1
