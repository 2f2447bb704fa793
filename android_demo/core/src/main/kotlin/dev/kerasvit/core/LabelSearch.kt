package dev.kerasvit.core

import java.text.Normalizer
import java.util.Locale

/** Finds classes by a part of their names, in lists of thousands; case and accents do not count. */
class LabelSearch(private val labels: List<String>) {
    // Only when something is searched for: a long list is on the screen before.
    private val folded by lazy { labels.map(::fold) }

    /**
     * The classes whose names contain every word of [query]: first those where each is the
     * beginning of a word, then the others, in the order of the labels. All for an empty query.
     */
    fun find(query: String): List<Int> {
        val words = fold(query).split(' ').filter { it.isNotEmpty() }
        if (words.isEmpty()) return labels.indices.toList()
        val beginnings = words.map { " $it" }
        val found = folded.indices.filter { i -> words.all { it in folded[i] } }
        val (starting, others) = found.partition { i -> beginnings.all { it in folded[i] } }
        return starting + others
    }
}

// A space before every word; "Crème_brûlée" becomes " creme brulee".
private fun fold(text: String): String {
    val small = text.lowercase(Locale.ROOT)
    val letters = if (small.all { it <= LAST_OF_ASCII }) small else withoutMarks(small)
    return " " + letters.replace(separators, " ")
}

// Far slower than the rest, and most labels are ASCII.
private fun withoutMarks(text: String): String =
    Normalizer.normalize(text, Normalizer.Form.NFKD).replace(marks, "")

private const val LAST_OF_ASCII = '\u007F'

private val marks = Regex("\\p{Mn}+")
private val separators = Regex("[^\\p{L}\\p{N}]+")
