package dev.kerasvit.core

import java.lang.management.ManagementFactory
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue

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

    @Test
    fun `a list as long as ImageNet-21k is searched at each letter`() {
        val many = List(21_843) { "class $it, Genus_species-${it % 97}" } + labels
        val cpu = ManagementFactory.getThreadMXBean()
        val begun = cpu.currentThreadCpuTime
        val long = LabelSearch(many)
        val query = "genus 21842"
        for (end in query.indices) long.find(query.take(end))
        assertEquals(listOf(21_842), long.find(query))
        assertEquals(many.size, long.find("").size)
        assertEquals("Crème brûlée", many[long.find("creme").single()])
        val millis = (cpu.currentThreadCpuTime - begun) / 1_000_000
        println("12 searches in ${many.size} labels: $millis ms")
        // About 0.2 s on a computer; a search that compared each label with each other takes minutes.
        assertTrue(millis < 5_000, "$millis ms")
    }

    private fun found(query: String) = search.find(query).map { labels[it] }
}
