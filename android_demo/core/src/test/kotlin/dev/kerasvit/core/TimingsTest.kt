package dev.kerasvit.core

import kotlin.math.abs
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue

class TimingsTest {
    @Test
    fun `median and p90 are those of NumPy`() {
        for (case in cases("percentiles.json")) {
            val nanos = case.doubles("nanos").map { it.toLong() }
            val timings = Timings(capacity = 100)
            nanos.forEach(timings::add)
            assertEquals(nanos.size, timings.count)
            assertClose(case.double("median"), timings.median())
            assertClose(case.double("p90"), timings.p90())
        }
    }

    @Test
    fun `there are none before the first`() {
        val timings = Timings(capacity = 4)
        assertEquals(0, timings.count)
        assertTrue(timings.median().isNaN() && timings.p90().isNaN())
        timings.add(1_000_000)
        assertEquals(1, timings.count)
        assertEquals(1.0, timings.median())
        assertEquals(1.0, timings.p90())
    }

    @Test
    fun `the oldest are forgotten`() {
        val timings = Timings(capacity = 3)
        for (millis in listOf(50L, 40, 30, 1, 2, 3)) timings.add(millis * 1_000_000)
        assertEquals(3, timings.count)
        assertEquals(2.0, timings.median())
        timings.clear()
        assertEquals(0, timings.count)
    }

    private fun assertClose(expected: Double, actual: Double) =
        assertTrue(abs(expected - actual) <= 1e-9, "expected $expected, received $actual")
}
