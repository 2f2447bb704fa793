package dev.kerasvit.core

import java.text.Normalizer
import java.util.Locale

/** Finds classes by a part of their names, in lists of thousands; case and accents do not count. */
class LabelSearch(labels: List<String>) {
    private val folded = labels.map(::fold)

    /**
     * The classes whose names contain every word of [query]: first those where each is the
     * beginning of a word, then the others, in the order of the labels. All for an empty query.
     */
    fun find(query: String): List<Int> {
        val words = fold(query).split(' ').filter { it.isNotEmpty() }
        val found = folded.indices.filter { i -> words.all { it in folded[i] } }
        val (starting, others) = found.partition { i -> words.all { " $it" in folded[i] } }
        return starting + others
    }
}

// A space before every word; "Crème_brûlée" becomes " creme brulee".
private fun fold(text: String): String {
    val letters = Normalizer.normalize(text.lowercase(Locale.ROOT), Normalizer.Form.NFKD)
    return " " + letters.replace(marks, "").replace(separators, " ")
}

private val marks = Regex("\\p{Mn}+")
private val separators = Regex("[^\\p{L}\\p{N}]+")
