package dev.kerasvit.demo

import java.io.File
import javax.xml.parsers.DocumentBuilderFactory
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import org.junit.Test
import org.w3c.dom.Element

class TranslationsTest {
    @Test
    fun `every text is translated, with the same values in it`() {
        val english = texts("values")
        val chinese = texts("values-zh-rCN")
        assertEquals(english.keys, chinese.keys)
        for ((name, text) in english) {
            assertEquals(values(text), values(chinese.getValue(name)), name)
        }
    }

    @Test
    fun `every Chinese text has Chinese characters, but for names`() {
        val names = setOf(
            "app_name",
            "language",
            "model_summary",
            "result_spoken",
            "result_spoken_of",
            "backend_cpu",
            "backend_gpu",
            "backend_npu",
            "time_p90",
            "clause_separator",
            "name_separator",
        )
        for ((name, text) in texts("values-zh-rCN") - names) {
            assertTrue(text.any { it in '\u3400'..'\u9fff' }, "$name: $text")
        }
    }

    @Test
    fun `every text is used`() {
        val sources = (File("src/main/kotlin").walk() + File("src/main/AndroidManifest.xml"))
            .filter { it.isFile }.joinToString { it.readText() }
        val names = texts("values").keys
        val unused = names.filterNot {
            Regex("(R\\.(string|plurals)\\.|@string/)$it\\b") in sources
        }
        assertEquals(emptyList(), unused)
    }

    /** By name; of a plural, the form that both languages have. */
    private fun texts(folder: String): Map<String, String> {
        val root = DocumentBuilderFactory.newInstance().newDocumentBuilder()
            .parse(File("src/main/res/$folder/strings.xml")).documentElement
        val nodes = root.childNodes
        return (0 until nodes.length).mapNotNull { nodes.item(it) as? Element }
            .filter { it.getAttribute("translatable") != "false" }
            .associate { it.getAttribute("name") to lastText(it) }
    }

    private fun lastText(element: Element): String {
        val items = element.getElementsByTagName("item")
        return (if (items.length > 0) items.item(items.length - 1) else element).textContent
    }

    private fun values(text: String): List<String> =
        Regex("%\\d\\$[sd]").findAll(text).map { it.value }.distinct().sorted().toList()
}
