package dev.kerasvit.demo

import dev.kerasvit.demo.work.FrameRate
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import org.junit.Test

class FrameRateTest {
    private val rate = FrameRate()

    @Test
    fun `frames are counted over a second`() {
        for (frame in 0..19) rate.add(1_000L + 50 * frame)
        assertTrue(rate.perSecond.isNaN(), "after 0.95 seconds")
        rate.add(2_000)
        assertEquals(20.0, rate.perSecond)
    }

    @Test
    fun `a slower camera is noticed a second later`() {
        for (frame in 0..20) rate.add(50L * frame)
        for (frame in 1..10) rate.add(1_000L + 100 * frame)
        assertEquals(10.0, rate.perSecond)
    }

    @Test
    fun `a model of 2,5 seconds has 0,4 frames in a second`() {
        rate.add(0)
        rate.add(2_500)
        assertEquals(0.4, rate.perSecond)
    }

    @Test
    fun `another camera or model begins anew`() {
        for (frame in 0..20) rate.add(50L * frame)
        rate.forget()
        assertTrue(rate.perSecond.isNaN())
        rate.add(60_000)
        rate.add(61_000)
        assertEquals(1.0, rate.perSecond)
    }
}
