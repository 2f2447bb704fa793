package dev.kerasvit.core

import kotlin.math.exp

/**
 * How the pictures of a gallery share their votes among its classes. For one thread; allocates
 * nothing after its construction.
 */
internal class ClassVotes(private val gallery: Gallery, private val features: Int) {
    private val isOfMeans = gallery.vote.of == Voters.MEANS

    // Of the voters: pictures that have a class, or all classes.
    private val pictures = gallery.pictures.indices.filter { gallery.pictures[it].target != null }
        .toIntArray()
    private val targets =
        if (isOfMeans) IntArray(gallery.classes.size) { it }
        else IntArray(pictures.size) { checkNotNull(gallery.pictures[pictures[it]].target) }

    // What a vote of each class is divided by: small classes are found among large ones.
    private val sizes = IntArray(gallery.classes.size)
    private val means = if (isOfMeans) classMeans(gallery, features) else DoubleArray(0)
    private val cosines = DoubleArray(targets.size)
    private val nearest = TopK(minOf(gallery.vote.neighbours, maxOf(pictures.size, 1)))
    private val all = IntArray(if (isOfMeans) targets.size else 0) { it }

    init {
        for (target in targets) sizes[target]++
    }

    /**
     * Computes the part of the votes that each class gets.
     *
     * @param unit the features of a picture, of length 1
     * @param similarities their cosines with the gallery's pictures
     * @param into a value for each class; the sum is 1
     */
    fun share(unit: DoubleArray, similarities: DoubleArray, into: DoubleArray) {
        into.fill(0.0)
        if (targets.isEmpty()) return
        for (i in cosines.indices) {
            cosines[i] = if (isOfMeans) product(unit, i) else similarities[pictures[i]]
        }
        val voters = if (isOfMeans) all else nearest.classes
        val count = if (isOfMeans) all.size else nearest.of(cosines)
        // Without the largest subtracted, a small temperature would overflow.
        var largest = Double.NEGATIVE_INFINITY
        for (i in 0 until count) largest = maxOf(largest, cosines[voters[i]])
        var sum = 0.0
        for (i in 0 until count) {
            val target = targets[voters[i]]
            val weight = exp((cosines[voters[i]] - largest) / gallery.vote.temperature)
            val vote = weight / sizes[target]
            into[target] += vote
            sum += vote
        }
        for (i in into.indices) into[i] /= sum
    }

    private fun product(unit: DoubleArray, target: Int): Double {
        var sum = 0.0
        for (i in unit.indices) sum += unit[i] * means[target * features + i]
        return sum
    }
}

/** The mean of each class's features, as rows of length 1. */
private fun classMeans(gallery: Gallery, features: Int): DoubleArray {
    val means = DoubleArray(gallery.classes.size * features)
    val row = FloatArray(features)
    for (picture in gallery.pictures) {
        val start = (picture.target ?: continue) * features
        picture.copyFeatures(row)
        for (i in row.indices) means[start + i] += row[i].toDouble()
    }
    for (target in gallery.classes.indices) unit(means, target * features, features)
    return means
}
