package dev.kerasvit.core

/** Finds the [k] most probable classes; of equal ones the first comes first, as in Python. */
class TopK(val k: Int) {
    init {
        require(k > 0) { "expected a positive number of classes. Received: $k." }
    }

    /** The classes found by [of], most probable first. */
    val classes = IntArray(k)

    /**
     * Fills [classes].
     *
     * @return how many were found: [k], or all if there are fewer
     */
    fun of(probabilities: DoubleArray): Int {
        var found = 0
        for (candidate in probabilities.indices) {
            val probability = probabilities[candidate]
            if (found == k && probability <= probabilities[classes[k - 1]]) continue
            var place = if (found < k) found++ else k - 1
            while (place > 0 && probabilities[classes[place - 1]] < probability) {
                classes[place] = classes[place - 1]
                place--
            }
            classes[place] = candidate
        }
        return found
    }
}
