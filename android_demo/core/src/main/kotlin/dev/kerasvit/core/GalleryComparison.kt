package dev.kerasvit.core

/**
 * Compares features with a gallery. For one thread; allocates nothing after its construction.
 *
 * @param features how many there are
 * @param k how many similar pictures to find
 */
internal class GalleryComparison(
    private val gallery: Gallery,
    features: Int,
    k: Int = SIMILAR_PICTURES,
) {
    private val unit = DoubleArray(features)
    private val row = FloatArray(features)
    private val similarities = DoubleArray(gallery.pictures.size)
    private val nearest = TopK(k)
    private var found = 0
    private val votes = ClassVotes(gallery, features)

    /** @param shares takes the part of the votes that each class gets */
    fun compare(features: FloatArray, shares: DoubleArray) {
        unit(features, unit)
        for (i in similarities.indices) {
            gallery.pictures[i].copyFeatures(row)
            var sum = 0.0
            for (channel in row.indices) sum += unit[channel] * row[channel]
            similarities[i] = sum
        }
        found = nearest.of(similarities)
        votes.share(unit, similarities, shares)
    }

    /** The pictures that the last features are most like, the most similar one first. */
    fun similar(): List<SimilarPicture> = nearest.classes.take(found)
        .map { SimilarPicture(gallery.pictures[it], similarities[it]) }
}

private const val SIMILAR_PICTURES = 5
