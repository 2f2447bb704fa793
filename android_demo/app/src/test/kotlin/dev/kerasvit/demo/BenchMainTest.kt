package dev.kerasvit.demo

import java.io.File
import java.io.OutputStream
import java.io.PrintStream
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.rules.TemporaryFolder

/** What the shell calls, without Android; EngineTests measure on both runtimes. */
class BenchMainTest {
    @get:Rule
    val folder = TemporaryFolder()
    private val lines = mutableListOf<String>()

    private fun run(vararg arguments: String) =
        BenchMain.run(arrayOf(folder.root.path, *arguments), lines::add)

    @Test
    fun `a backend is measured by the build's runtime, or the reason is told`() {
        copyOfBundle(folder.root).renameTo(File(folder.root, "bundle"))
        run("NPU", "4", "0")
        assertTrue(lines[0].startsWith("""{"refused":{"runtime":"TensorFlow Lite, not loaded"""))
        assertTrue(""","kind":"UNAVAILABLE","reason":""" in lines[0], lines[0])
        assertEquals("""{"end":{}}""", lines[1])
    }

    @Test
    fun `a benchmark that nobody reads ends`() {
        val out = System.out
        System.setOut(PrintStream(OutputStream.nullOutputStream().apply { close() }))
        try {
            assertFailsWith<IllegalStateException> { BenchMain.tell("{}") }
        } finally {
            System.setOut(out)
        }
    }

    @Test
    fun `no bundle, and a backend that nobody has, are errors`() {
        assertFailsWith<Exception> { run("CPU", "4", "0") }
        assertFailsWith<IllegalArgumentException> { run("TPU", "4", "0") }
        assertTrue(lines.isEmpty(), "$lines")
    }
}
