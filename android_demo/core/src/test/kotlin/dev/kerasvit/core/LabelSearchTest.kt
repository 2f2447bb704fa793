package dev.kerasvit.core

import kotlin.test.Test
import kotlin.test.assertEquals

class LabelSearchTest {
    private val labels = listOf(
        "tench, Tinca_tinca", "Crème brûlée", "ice cream", "creamery", "Große Katze", "虎猫",
        "İstanbul", "bobcat", "cat", "red_fox", "Å-string",
    )
    private val search = LabelSearch(labels)

    @Test
    fun `beginnings of words come first`() {
        assertEquals(listOf("cat", "bobcat"), found("cat"))
        assertEquals(listOf("ice cream", "creamery"), found("crea"))
        assertEquals(listOf("tench, Tinca_tinca"), found("tinca"))
        assertEquals(listOf("red_fox"), found("fox"))
    }

    @Test
    fun `case and accents do not count`() {
        assertEquals(listOf("Crème brûlée"), found("CREME"))
        assertEquals(listOf("Crème brûlée"), found("brul"))
        assertEquals(listOf("Crème brûlée"), found("Brûlé"))
        assertEquals(listOf("İstanbul"), found("istanbul"))
        assertEquals(listOf("Å-string"), found("a string"))
        assertEquals(listOf("虎猫"), found("猫"))
    }

    @Test
    fun `all words must occur`() {
        assertEquals(listOf("ice cream"), found("cream ice"))
        assertEquals(emptyList(), found("cream fox"))
        assertEquals(listOf("red_fox"), found(" red   fox "))
    }

    @Test
    fun `an empty query finds all`() {
        assertEquals(labels, found(""))
        assertEquals(labels, found(" ,"))
    }

    private fun found(query: String) = search.find(query).map { labels[it] }
}
