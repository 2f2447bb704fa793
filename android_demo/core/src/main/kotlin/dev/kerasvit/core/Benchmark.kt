package dev.kerasvit.core

import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import kotlinx.serialization.json.JsonObjectBuilder
import kotlinx.serialization.json.buildJsonObject
import kotlinx.serialization.json.put

/**
 * The golden check and the times of one backend, cold, warm and sustained, in a process that has not
 * loaded a model before.
 *
 * Each result is told at once, so that a process that is killed leaves what it measured: as a line
 * of JSON, an object with one field, which is named after the step. The last one is `end`.
 *
 * @param seconds how long the model runs without a pause; 0 leaves this step out
 * @param tell takes the lines
 * @throws BundleException if the bundle cannot be read
 */
fun benchmark(
    files: BundleFiles,
    factory: EngineFactory,
    options: EngineOptions,
    seconds: Int,
    clock: Clock = Clock(System::nanoTime),
    tell: (String) -> Unit,
) {
    val bundle = readBundle(files)
    val golden = readGolden(files, bundle)
    val model = readModel(files, bundle.description)
    val tellStep = { name: String, fields: JsonObjectBuilder.() -> Unit ->
        tell(buildJsonObject { put(name, buildJsonObject(fields)) }.toString())
    }
    try {
        val start = clock.nanos()
        factory.create(model, options).use { engine ->
            val loaded = clock.nanos()
            val classifier = Classifier(bundle, engine, clock = clock)
            val first = classifier.classify(golden.image).inferenceNanos
            tellStep("cold") {
                put("runtime", engine.info.runtime)
                put("delegated", engine.info.delegated)
                put("load_ms", (loaded - start) / 1e6)
                put("first_ms", first / 1e6)
            }
            val bench = Benchmark(classifier, golden.image, clock, tellStep)
            val check = { bench.tellVerdict(measure(engine, bundle, golden)) }
            // A backend that computes something else has no time worth knowing.
            if (check()) {
                bench.warm()
                if (seconds > 0) {
                    bench.sustain(seconds)
                    check() // Also when it is hot.
                }
            }
        }
    } catch (error: EngineException) {
        tellStep("refused") { putReason(factory, error) }
    } catch (error: OutOfMemoryError) {
        tellStep("refused") { putReason(factory, engineExceptionOf(error)) }
    }
    tellStep("end") {}
}

private class Benchmark(
    private val classifier: Classifier,
    private val image: RgbImage,
    private val clock: Clock,
    private val tellStep: (String, JsonObjectBuilder.() -> Unit) -> Unit,
) {
    fun warm() {
        val timings = Timings(MOST_RUNS)
        val end = clock.nanos() + WARM_NANOS
        while (timings.count < MOST_RUNS) {
            if (timings.count >= FEWEST_RUNS && clock.nanos() >= end) break
            timings.add(run())
        }
        tellTimes("warm", timings, timings.count)
    }

    fun sustain(seconds: Int) {
        val start = clock.nanos()
        for (second in 1..seconds step INTERVAL_SECONDS) {
            val last = minOf(second - 1 + INTERVAL_SECONDS, seconds)
            interval(start, start + last * 1_000_000_000L)
        }
    }

    private fun interval(start: Long, end: Long) {
        val timings = Timings(MOST_IN_INTERVAL)
        var runs = 0
        // The runs of a slow model may last longer than an interval, which then has none.
        while (clock.nanos() < end) {
            timings.add(run())
            runs++
        }
        if (runs == 0) return
        val at = (clock.nanos() - start) / 1e9
        tellTimes("interval", timings, runs) { put("at_s", at) }
    }

    fun tellVerdict(outcome: Outcome): Boolean {
        val measured = when (outcome) {
            is Outcome.Passed -> outcome.measured
            is Outcome.Failed -> outcome.measured
            is Outcome.Refused -> throw EngineException(outcome.kind, outcome.reason)
        }
        tellStep("golden") {
            put("same_class", measured.classAgrees)
            put("tensor_difference", measured.tensorDifference)
            put("tensor_tolerance", measured.tensorTolerance)
            put("score_difference", measured.scoreDifference)
            put("score_tolerance", measured.scoreTolerance)
            measured.otherPixels?.let {
                put("pixel_difference", it.part)
                put("pixel_tolerance", it.most)
            }
        }
        return outcome is Outcome.Passed
    }

    private fun run(): Long = classifier.classify(image).inferenceNanos

    private fun tellTimes(
        name: String,
        timings: Timings,
        runs: Int,
        more: JsonObjectBuilder.() -> Unit = {},
    ) = tellStep(name) {
        put("median_ms", timings.median())
        put("p90_ms", timings.p90())
        put("runs", runs)
        more()
    }
}

private fun JsonObjectBuilder.putReason(factory: EngineFactory, error: EngineException) {
    put("runtime", factory.runtime)
    put("kind", error.kind.name)
    put("reason", error.reason)
}

// Of the warm times: a slow model runs three times.
private const val FEWEST_RUNS = 3
private const val MOST_RUNS = 100
private const val WARM_NANOS = 5_000_000_000L

private const val INTERVAL_SECONDS = 10
// The newest are kept: a run of less than a millisecond may be repeated more often.
private const val MOST_IN_INTERVAL = 10_000
