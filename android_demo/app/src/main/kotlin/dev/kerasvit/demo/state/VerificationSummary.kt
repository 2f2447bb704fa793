package dev.kerasvit.demo.state

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Outcome
import dev.kerasvit.engine.Backend

/** Which backends agree with the exporter: its numbers and its class. */
data class VerificationSummary(
    val agreeing: List<Backend>,
    val differing: List<Backend>,
    val refused: List<Backend>,
) {
    val total: Int get() = agreeing.size + differing.size + refused.size
}

/** Null while a check is running, and where there was none. */
fun summaryOf(verification: Verification): VerificationSummary? {
    val verdicts = verification.verdicts
    if (verification.isRunning || verdicts.isEmpty()) return null
    fun backends(isWanted: (Outcome) -> Boolean) =
        verdicts.filter { isWanted(it.outcome) }.map(BackendVerdict::backend)
    val agreeing = backends { it is Outcome.Passed && it.measured.classAgrees }
    val refused = backends { it is Outcome.Refused }
    return VerificationSummary(agreeing, backends { true } - agreeing - refused, refused)
}
