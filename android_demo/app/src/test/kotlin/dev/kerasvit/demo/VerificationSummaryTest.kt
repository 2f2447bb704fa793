package dev.kerasvit.demo

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Measured
import dev.kerasvit.core.Outcome
import dev.kerasvit.demo.state.Verification
import dev.kerasvit.demo.state.VerificationSummary
import dev.kerasvit.demo.state.summaryOf
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import kotlin.test.assertEquals
import kotlin.test.assertNull
import org.junit.Test

class VerificationSummaryTest {
    private val verdicts = listOf(
        BackendVerdict(Backend.CPU, Outcome.Passed(measured(foundClass = 4))),
        BackendVerdict(Backend.CPU_HALF, Outcome.Passed(measured(foundClass = 9))),
        BackendVerdict(Backend.CPU_PLAIN, Outcome.Failed(measured(foundClass = 4))),
        BackendVerdict(Backend.GPU, Outcome.Refused(EngineFailure.REFUSED, "a reason")),
    )

    @Test
    fun `a backend agrees with the exporter if its numbers and its class do`() {
        val expected = VerificationSummary(
            agreeing = listOf(Backend.CPU),
            differing = listOf(Backend.CPU_HALF, Backend.CPU_PLAIN),
            refused = listOf(Backend.GPU),
        )
        assertEquals(expected, summaryOf(Verification(verdicts = verdicts)))
        assertEquals(4, expected.total)
    }

    @Test
    fun `there is no summary before a check has ended`() {
        assertNull(summaryOf(Verification()))
        assertNull(summaryOf(Verification(isRunning = true, verdicts = verdicts)))
    }

    private fun measured(foundClass: Int) = Measured(
        tensorDifference = 0.0,
        tensorTolerance = 1e-6,
        scoreDifference = 0.01,
        scoreTolerance = 0.0625,
        expectedClass = 4,
        foundClass = foundClass,
        inferenceMillis = 1.0,
        info = EngineInfo(Backend.CPU, 2, "a runtime", 1),
    )
}
