package dev.kerasvit.core

import java.util.Locale

/**
 * The result of [verify] as plain text in English, to be shared.
 *
 * @param device as people name it: "Google Pixel 8, Android 16"
 */
fun report(
    device: String,
    runtime: String,
    bundle: Bundle,
    verdicts: List<BackendVerdict>,
): String = buildString {
    val description = bundle.description
    appendLine("keras_vit: the golden check on this device")
    appendLine("device: $device")
    appendLine("runtime: $runtime (the file needs ${description.runtimeFloor} or newer)")
    appendLine("bundle: ${bundle.name} (${description.model}, ${description.precision})")
    appendLine("model.tflite: ${description.bytes} bytes, sha256 ${description.sha256}")
    for (verdict in verdicts) {
        appendLine()
        append("${verdict.backend}: ")
        when (val outcome = verdict.outcome) {
            is Outcome.Passed -> {
                val within = "within the tolerances, but ANOTHER CLASS"
                val word = if (outcome.measured.classAgrees) "passed" else within
                appendMeasured(word, outcome.measured, bundle)
            }
            is Outcome.Failed -> appendMeasured("FAILED", outcome.measured, bundle)
            is Outcome.Refused -> appendLine("not run, ${outcome.kind}: ${outcome.reason}")
        }
    }
}

private fun StringBuilder.appendMeasured(word: String, measured: Measured, bundle: Bundle) {
    appendLine(word)
    measured.run {
        appendDifference("input", tensorDifference, tensorTolerance, tensorAgrees)
        val isClassMap = bundle.description.output.kind == OutputKind.CLASS_MAP
        if (isClassMap) appendPixels(scoreDifference, scoreTolerance, scoresAgree)
        else appendDifference("scores", scoreDifference, scoreTolerance, scoresAgree)
        otherPixels?.run { appendPixels(part, most, areFew) }
    }
    if (measured.foundClass != null && measured.expectedClass != null) {
        append("  class: ${bundle.labels[measured.foundClass]}")
        val expected = bundle.labels[measured.expectedClass]
        appendLine(if (measured.classAgrees) "" else "; expected $expected")
    }
    val millis = "%.2f".format(Locale.ROOT, measured.inferenceMillis)
    appendLine("  time: $millis ms, ${measured.info.threads} threads")
    measured.info.delegated?.let {
        appendLine("  delegated: $it of ${bundle.description.operators} operators")
    }
}

private fun StringBuilder.appendDifference(
    name: String,
    difference: Double,
    tolerance: Double,
    agrees: Boolean,
) {
    val numbers = "differs by %.3g, allowed are %.3g".format(Locale.ROOT, difference, tolerance)
    appendFinding("$name: $numbers", agrees)
}

private fun StringBuilder.appendPixels(difference: Double, tolerance: Double, agrees: Boolean) {
    val (other, most) = listOf(difference, tolerance).map { "%.2f%%".format(Locale.ROOT, 100 * it) }
    appendFinding("pixels of another class: $other, at most $most", agrees)
}

private fun StringBuilder.appendFinding(finding: String, agrees: Boolean) {
    appendLine("  $finding${if (agrees) "" else ": TOO MUCH"}")
}
