package dev.kerasvit.core

import java.io.FileNotFoundException
import java.nio.FloatBuffer
import kotlin.math.exp
import kotlin.math.sqrt
import kotlin.random.Random
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue

/** Similarities and votes are those of the formulas, computed here with lists. */
class GalleryComparisonTest {
    private val random = Random(7)
    private val vectors = List(40) { unit(List(6) { random.nextDouble(-1.0, 1.0) }) }
    private val targets = vectors.indices.map { if (it % 7 == 0) null else it % 4 }
    private val features = FloatArray(6) { random.nextDouble(-9.0, 9.0).toFloat() }

    @Test
    fun `pictures are in the order of their cosines`() {
        val compared = compare(Vote(Voters.MEANS))
        val expected = vectors.indices.sortedByDescending { cosine(it) }.take(5)
        assertEquals(expected.map { "$it" }, compared.similar.map { it.picture.name })
        for ((i, one) in expected.zip(compared.similar)) {
            assertEquals(cosine(i), one.similarity, 1e-7)
        }
    }

    @Test
    fun `the nearest pictures that have a class vote`() {
        for (neighbours in listOf(1, 3, 10, 1000)) {
            val vote = Vote(Voters.PICTURES, neighbours, temperature = 0.2)
            val voters = vectors.indices.filter { targets[it] != null }
                .sortedByDescending { cosine(it) }.take(neighbours)
            val weights = voters.map { i ->
                exp(cosine(i) / 0.2) / targets.count { it == targets[i] }
            }
            val expected = (0..3).map { target ->
                voters.zip(weights).filter { targets[it.first] == target }.sumOf { it.second } /
                    weights.sum()
            }
            assertShares(expected, compare(vote).shares)
        }
    }

    @Test
    fun `a class of few pictures is found among large ones`() {
        val large = List(50) { unit(listOf(1.0, 0.2)) } + listOf(unit(listOf(1.0, 0.1)))
        val gallery = gallery(large, List(50) { 0 } + listOf(1), Vote(Voters.PICTURES))
        assertTrue(compare(gallery, floatArrayOf(1f, 0f)).shares[1] > 0.8)
    }

    @Test
    fun `the means of all classes vote`() {
        val means = (0..3).map { target ->
            val own = vectors.filterIndexed { i, _ -> targets[i] == target }
            unit((0..5).map { channel -> own.sumOf { it[channel] } / own.size })
        }
        val weights = means.map { exp(product(it, query()) / 0.07) }
        assertShares(weights.map { it / weights.sum() }, compare(Vote(Voters.MEANS, 2)).shares)
    }

    @Test
    fun `of equal pictures the first comes first, and votes`() {
        val same = List(4) { listOf(0.0, 1.0) }
        val gallery = gallery(same, listOf(null, 2, 0, 1), Vote(Voters.PICTURES, 1))
        val compared = compare(gallery, floatArrayOf(0f, 3f))
        assertEquals(listOf("0", "1", "2", "3"), compared.similar.map { it.picture.name })
        assertEquals(listOf(0.0, 0.0, 1.0), compared.shares.toList())
    }

    @Test
    fun `a vector of zeros is like nothing, and all vote alike`() {
        for (of in Voters.values()) {
            val compared = compare(gallery(vectors, targets, Vote(of, 1000)), FloatArray(6))
            assertTrue(compared.similar.all { it.similarity == 0.0 })
            assertShares(List(4) { 0.25 }, compared.shares)
        }
    }

    @Test
    fun `a small temperature leaves the nearest class only`() {
        for (of in Voters.values()) {
            val compared = compare(Vote(of, temperature = 1e-300))
            assertEquals(listOf(0.0, 0.0, 0.0, 1.0), compared.shares.sorted())
        }
    }

    @Test
    fun `pictures without classes share no votes`() {
        for (of in Voters.values()) {
            val none = gallery(vectors, targets.map { null }, Vote(of), classes = 0)
            val compared = compare(none, features)
            assertEquals(5 to 0, compared.run { similar.size to shares.size })
        }
    }

    private class Compared(val similar: List<SimilarPicture>, val shares: DoubleArray)

    private fun compare(vote: Vote) = compare(gallery(vectors, targets, vote), features)

    private fun compare(gallery: Gallery, features: FloatArray): Compared {
        val comparison = GalleryComparison(gallery, features.size)
        val shares = DoubleArray(gallery.classes.size)
        repeat(2) { comparison.compare(features, shares) } // Nothing is left of the first.
        return Compared(comparison.similar(), shares)
    }

    private fun gallery(
        vectors: List<List<Double>>,
        targets: List<Int?>,
        vote: Vote,
        classes: Int = targets.filterNotNull().max() + 1,
    ): Gallery {
        val floats = vectors.flatten().map { it.toFloat() }.toFloatArray()
        val rows = Vectors(FloatBuffer.wrap(floats), vectors[0].size)
        val pictures = targets.mapIndexed { i, target ->
            GalleryPicture("$i", target, rows, i) { throw FileNotFoundException() }
        }
        return Gallery(List(classes) { "class $it" }, pictures, vote)
    }

    private fun query() = unit(features.map { it.toDouble() })

    private fun cosine(picture: Int) = product(vectors[picture], query())

    private fun product(one: List<Double>, other: List<Double>) =
        one.zip(other).sumOf { (a, b) -> a * b }

    private fun unit(vector: List<Double>) = sqrt(vector.sumOf { it * it }).let { length ->
        vector.map { it / length }
    }

    private fun assertShares(expected: List<Double>, shares: DoubleArray) {
        assertEquals(expected.size, shares.size)
        for ((one, other) in expected.zip(shares.toList())) assertEquals(one, other, 1e-6)
    }
}
