package dev.kerasvit.core

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import kotlin.math.abs

/** What one backend made of the golden image. */
data class BackendVerdict(val backend: Backend, val outcome: Outcome)

sealed class Outcome {
    /**
     * The tensor and the scores are within the bundle's tolerances. Where two classes are nearly
     * equal, the class may still differ: see [Measured.classAgrees].
     */
    data class Passed(val measured: Measured) : Outcome()

    /** One of them is not. */
    data class Failed(val measured: Measured) : Outcome()

    /** There are no scores; [reason] is in the runtime's own words. */
    data class Refused(val kind: EngineFailure, val reason: String) : Outcome()
}

/** How far a backend is from the exporter. */
data class Measured(
    /** Largest absolute difference of the input tensor. */
    val tensorDifference: Double,
    val tensorTolerance: Double,
    /** Largest absolute difference of the scores; of a class map, the part of other classes. */
    val scoreDifference: Double,
    val scoreTolerance: Double,
    /** Null for features, feature maps and masks, also [foundClass]. */
    val expectedClass: Int?,
    val foundClass: Int?,
    /** Median milliseconds of the inference alone. */
    val inferenceMillis: Double,
    val info: EngineInfo,
    /** For the scores of masks alone. */
    val otherPixels: OtherPixels? = null,
) {
    // NaN is in no tolerance.
    val tensorAgrees: Boolean get() = tensorDifference <= tensorTolerance
    val scoresAgree: Boolean get() = scoreDifference <= scoreTolerance
    val pixelsAgree: Boolean get() = otherPixels?.areFew ?: true
    val classAgrees: Boolean get() = foundClass == expectedClass
}

/** The [part] of the pixels that have another class, and how much it may be. */
data class OtherPixels(val part: Double, val most: Double) {
    val areFew: Boolean get() = part <= most
}

/**
 * The golden check: runs the image of `golden.json` on each backend and compares the input tensor
 * and the scores with the exporter's.
 *
 * @throws BundleException if `golden.json` or `model.tflite` cannot be read
 */
fun verify(
    files: BundleFiles,
    bundle: Bundle,
    factory: EngineFactory,
    backends: List<Backend> = factory.backends,
    threads: Int = 2,
): List<BackendVerdict> = verifyEach(files, bundle, factory, backends, threads).toList()

/** As [verify], one by one: a backend runs when its verdict is asked for. */
fun verifyEach(
    files: BundleFiles,
    bundle: Bundle,
    factory: EngineFactory,
    backends: List<Backend> = factory.backends,
    threads: Int = 2,
): Sequence<BackendVerdict> {
    val golden = readGolden(files, bundle)
    val model = readModel(files, bundle.description)
    return backends.asSequence().map { backend ->
        val outcome = try {
            val engine = factory.create(model, EngineOptions(backend, threads))
            engine.use { measure(it, bundle, golden) }
        } catch (error: EngineException) {
            Outcome.Refused(error.kind, error.reason)
        } catch (error: OutOfMemoryError) {
            Outcome.Refused(EngineFailure.OUT_OF_MEMORY, engineExceptionOf(error).reason)
        }
        BackendVerdict(backend, outcome)
    }
}

/** Compares an engine that is loaded; [Outcome.Passed] or [Outcome.Failed]. */
internal fun measure(
    engine: Engine,
    bundle: Bundle,
    golden: Golden,
    clock: Clock = Clock(System::nanoTime),
): Outcome {
    val classifier = Classifier(bundle, engine, clock = clock)
    val start = clock.nanos()
    var result = classifier.classify(golden.image)
    // At least one after the warm-up, however slow the model is.
    while (classifier.inference.count < RUNS) {
        if (classifier.inference.count > 0 && clock.nanos() - start > MOST_NANOS) break
        result = classifier.classify(golden.image)
    }
    val (input, output) = bundle.description.run { input to output }
    val otherPixels = output.mask?.let { otherPixels(golden.scores, result.scores, it) }
    val mostPixels = golden.tolerances.pixels
    val scoresClasses = output.scoresClasses
    val measured = Measured(
        tensorDifference = largestDifference(golden.tensor, readTensor(classifier.tensor, input)),
        tensorTolerance = golden.tolerances.tensor,
        scoreDifference = otherPixels?.takeIf { output.kind == OutputKind.CLASS_MAP }
            ?: largestDifference(golden.scores, result.scores),
        scoreTolerance = golden.tolerances.scoresOn(engine.info.backend),
        expectedClass = if (scoresClasses) golden.bestClass(output) else null,
        foundClass = if (scoresClasses) result.classes[0] else null,
        inferenceMillis = classifier.inference.median(),
        info = engine.info,
        otherPixels =
            if (otherPixels == null || mostPixels == null) null
            else OtherPixels(otherPixels, mostPixels),
    )
    val passed = measured.run { tensorAgrees && scoresAgree && pixelsAgree }
    return if (passed) Outcome.Passed(measured) else Outcome.Failed(measured)
}

private fun Golden.bestClass(output: Output): Int {
    val all = DoubleArray(output.answers)
    probabilities(scores, output, all)
    return all.indices.maxBy { all[it] }
}

// GPUs compute in half precision, too.
private fun Tolerances.scoresOn(backend: Backend): Double = when (backend) {
    Backend.CPU_HALF, Backend.GPU, Backend.NPU -> scoresHalfPrecision ?: scores
    Backend.CPU, Backend.CPU_PLAIN -> scores
}

private fun largestDifference(expected: FloatArray, received: FloatArray): Double =
    expected.indices.maxOf { abs(expected[it].toDouble() - received[it]) }

/** The part of the places at which two outputs have another class. */
private fun otherPixels(expected: FloatArray, received: FloatArray, shape: MaskShape): Double {
    val (one, other) = listOf(expected, received).map { values ->
        IntArray(shape.rows * shape.columns).also { findClasses(values, shape, it) }
    }
    return one.indices.count { one[it] != other[it] } / one.size.toDouble()
}

private const val RUNS = 10
private const val MOST_NANOS = 2_000_000_000L
