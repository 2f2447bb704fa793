package dev.kerasvit.demo

import dev.kerasvit.demo.screen.Wording
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineInfo
import kotlin.test.assertEquals
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment

/** Numbers in words. */
@RunWith(RobolectricTestRunner::class)
class WordingTest {
    private val wording = Wording(RuntimeEnvironment.getApplication().resources)

    @Test
    fun `a megabyte has a million bytes`() {
        val sizes = listOf(999_499L, 1_000_000L, 999_499_999L, 1_230_000_000L)
        val expected = listOf("999 kB", "1 MB", "999 MB", "1.23 GB")
        assertEquals(expected, sizes.map(wording::size))
    }

    @Test
    fun `milliseconds have up to three digits`() {
        val expected = listOf("0.12", "9.99", "12.3", "99.9", "123")
        val values = listOf(0.123, 9.991, 12.34, 99.91, 123.4)
        assertEquals(expected, values.map(wording::milliseconds))
    }

    @Test
    fun `a probability that is not nothing is not written as nothing`() {
        val values = listOf(0.0, 1e-300, 0.00049, 0.00051, 0.00149, 0.5, 0.99999, 1.0)
        // Behind a mark that keeps it from left to right.
        val less = "\u200E<0.1%"
        val expected = listOf("0.0%", less, less, "0.1%", "0.1%", "50.0%", "100.0%", "100.0%")
        for (language in listOf("+en", "+zh-rCN")) {
            RuntimeEnvironment.setQualifiers(language)
            val wording = Wording(RuntimeEnvironment.getApplication().resources)
            assertEquals(expected, values.map(wording::probability))
        }
        val spoken = wording.text(R.string.result_spoken, "7", less)
        assertEquals(spoken, wording.spoken(model = null, "7", 0.0001))
    }

    @Test
    fun `how much XNNPACK took is said, or that it took all`() {
        val said = listOf(157, 127, null).map { delegated ->
            wording.delegated(EngineInfo(Backend.CPU, 1, "", delegated), operators = 157)
        }
        val expected = listOf(
            wording.text(R.string.run_delegated_all, "XNNPACK", 157),
            wording.text(R.string.run_delegated, "XNNPACK", 127, 157),
            wording.text(R.string.run_delegated_unknown, "XNNPACK", 157),
        )
        assertEquals(expected, said)
    }
}
