package dev.kerasvit.core

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue

class BenchmarkTest {
    private var nanos = 0L
    private val lines = mutableListOf<String>()

    /** Loads in 40 ms and runs in 20 ms, or longer when it is hot. */
    private fun engines(change: (ByteBuffer) -> Unit = {}) = FakeFactory { info ->
        nanos += 40_000_000
        FakeEngine(info) {
            nanos += if (nanos > 12_000_000_000) 50_000_000 else 20_000_000
            change(it)
        }
    }

    private fun benchmark(
        factory: FakeFactory,
        seconds: Int = 0,
        files: BundleFiles = sampleFiles(),
    ): List<String> {
        val options = EngineOptions(Backend.GPU, 4)
        benchmark(files, factory, options, seconds, { nanos }, lines::add)
        return steps()
    }

    private fun steps() = lines.map { Regex("\\w+").find(it)!!.value }

    @Test
    fun `the lines are those that Python reads`() {
        val factory = engines()
        benchmark(factory, seconds = 25)
        // tests/deploy/phone/test_bench.py reads the same file.
        val expected = javaClass.getResource("/benchmark.jsonl")!!.readText()
        assertEquals(expected.trim().lines(), lines)
        assertTrue(factory.made.single().isClosed)
    }

    @Test
    fun `without seconds nothing is sustained`() {
        assertEquals(listOf("cold", "golden", "warm", "end"), benchmark(engines()))
    }

    @Test
    fun `a backend that computes something else is not timed`() {
        assertEquals(listOf("cold", "golden", "end"), benchmark(engines { it.put(0, 90) }, 20))
        assertTrue("\"same_class\":false" in lines[1], lines[1])
        assertTrue("\"score_difference\":43.0,\"score_tolerance\":1.5" in lines[1], lines[1])
    }

    @Test
    fun `of masks the pixels of another class are told`() {
        val lenient = segmenterFiles().edit("golden.json", "_precision\": 1.5", "_precision\": 50")
        val steps = benchmark(engines { it.put(0, 90) }, files = lenient)
        assertEquals(listOf("cold", "golden", "end"), steps)
        assertTrue("\"pixel_difference\":1.0,\"pixel_tolerance\":0.125" in lines[1], lines[1])
    }

    @Test
    fun `a backend that computes something else when it is hot is found out`() {
        benchmark(engines { if (nanos > 12_000_000_000) it.put(0, 90) }, 20)
        assertEquals(listOf("golden", "end"), steps().takeLast(2))
        assertTrue("\"score_difference\":43.0" in lines[lines.size - 2], "$lines")
    }

    @Test
    fun `a slow model runs a few times only, and an interval may be without a run`() {
        val slow = FakeFactory { info -> FakeEngine(info) { nanos += 15_000_000_000 } }
        benchmark(slow, 40)
        assertTrue("\"warm\":{\"median_ms\":15000.0,\"p90_ms\":15000.0,\"runs\":3}" in lines[2])
        assertEquals(
            listOf("15.0", "30.0", "45.0"),
            lines.mapNotNull { Regex("\"at_s\":([0-9.]+)").find(it)?.groupValues?.get(1) },
        )
    }

    @Test
    fun `a refusal, and memory that runs out, are told with the runtime's words`() {
        val reason = "no \"OpenCL\""
        val refusing = FakeFactory { throw EngineException(EngineFailure.UNAVAILABLE, reason) }
        assertEquals(listOf("refused", "end"), benchmark(refusing))
        val told = "\"kind\":\"UNAVAILABLE\",\"reason\":\"no \\\"OpenCL\\\"\""
        assertEquals("{\"refused\":{\"runtime\":\"Fake 1.0\",$told}}", lines[0])
        lines.clear()
        val full = engines { if (lines.size == 2) throw OutOfMemoryError("1 GB") }
        assertEquals(listOf("cold", "golden", "refused", "end"), benchmark(full))
        assertTrue("OUT_OF_MEMORY" in lines[2] && full.made.single().isClosed)
    }
}
