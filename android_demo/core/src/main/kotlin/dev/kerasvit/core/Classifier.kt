package dev.kerasvit.core

import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import java.nio.ByteBuffer

/**
 * Classifies images with one engine, and times each step. Features are compared with the bundle's
 * gallery, where there is one; a feature map becomes a picture; the scores of pixels a mask.
 *
 * No memory is allocated for an image of the same size as the last one. For one thread. The times
 * leave out the warm-up, whose runs include what is done once: three, or fewer if they take a second.
 *
 * @param engine a loaded `model.tflite` of the bundle; closed by [close]
 * @param k how many classes to find
 */
class Classifier(
    val bundle: Bundle,
    val engine: Engine,
    k: Int = 5,
    private val clock: Clock = Clock(System::nanoTime),
) : AutoCloseable {
    /** From the image to the input tensor. */
    val preprocessing = Timings()

    /** From the input tensor to the output tensor. */
    val inference = Timings()

    /** From the output tensor to the most probable classes, similar pictures, colours, a mask. */
    val reading = Timings()

    /** Whether the warm-up is over: the next image is timed. */
    val isWarm: Boolean get() = warmUpRuns >= WARM_UP_RUNS || warmUpNanos >= WARM_UP_NANOS
    private var warmUpRuns = 0
    private var warmUpNanos = 0L

    /** The input tensor of the last image. */
    internal val tensor: ByteBuffer get() = preprocessor.tensor

    private val output = bundle.description.output
    private val preprocessor = Preprocessor(bundle.description.input)
    private val outputTensor = directBuffer(output.bytes)
    private val top = TopK(k)
    private val comparison = bundle.gallery?.let { GalleryComparison(it, output.size) }
    private val components = output.map?.let(::PatchComponents)
    private val pixels =
        output.mask?.let { PixelClasses(it, bundle.description.input, bundle.labels) }
    private val classification = Classification(bundle, top, comparison, components, pixels)

    /**
     * Classifies one image.
     *
     * @return an object that the next call overwrites; [Classification.predictions],
     *     [Classification.similar], [Classification.patchColours] and [Classification.mask] copy it
     * @throws EngineException if the runtime fails, the scores are not finite, or a class map has
     *     classes that the model does not have
     */
    fun classify(image: RgbImage): Classification {
        val start = clock.nanos()
        val tensor = preprocessor.run(image)
        val preprocessed = clock.nanos()
        engine.run(tensor, outputTensor)
        val computed = clock.nanos()
        read(classification)
        val end = clock.nanos()
        classification.imageWidth = image.width
        classification.imageHeight = image.height
        classification.preprocessingNanos = preprocessed - start
        classification.inferenceNanos = computed - preprocessed
        classification.readingNanos = end - computed
        record(classification)
        return classification
    }

    /** Begins with another warm-up, as when another image size begins. */
    fun forgetTimes() {
        preprocessing.clear()
        inference.clear()
        reading.clear()
        warmUpRuns = 0
        warmUpNanos = 0
    }

    override fun close() = engine.close()

    private fun record(times: Classification) {
        if (isWarm) {
            preprocessing.add(times.preprocessingNanos)
            inference.add(times.inferenceNanos)
            reading.add(times.readingNanos)
        } else {
            warmUpRuns++
            warmUpNanos += times.preprocessingNanos + times.inferenceNanos + times.readingNanos
        }
    }

    private fun read(into: Classification) {
        readScores(outputTensor, output, into.scores)
        val areFinite =
            if (output.scoresClasses) probabilities(into.scores, output, into.probabilities)
            else into.scores.all { it.isFinite() }
        if (!areFinite) {
            throw EngineException(EngineFailure.NOT_FINITE, "the scores are NaN or infinite")
        }
        comparison?.compare(into.scores, into.probabilities)
        components?.compute(into.scores)
        if (pixels?.compute(into.scores) == false) {
            val reason = "a pixel has a class that the model does not have"
            throw EngineException(EngineFailure.UNKNOWN_CLASS, reason)
        }
        into.count = top.of(into.probabilities)
    }
}

/** The result of [Classifier.classify]. */
class Classification internal constructor(
    bundle: Bundle,
    private val top: TopK,
    private val comparison: GalleryComparison?,
    private val components: PatchComponents?,
    private val pixels: PixelClasses?,
) {
    private val labels = bundle.labels

    /**
     * The score of each class, logits or probabilities, or the features, of a map patch by patch,
     * or what a mask is made of, row by row: see [Output.kind].
     */
    val scores = FloatArray(bundle.description.output.size)

    /**
     * The probability of each of [Bundle.labels]; of features, its part of the votes. There are
     * none of masks, which have no class of the whole picture.
     */
    val probabilities = DoubleArray(if (pixels == null) labels.size else 0)

    /** The most probable classes, the most probable first; [count] of them are valid. */
    val classes: IntArray get() = top.classes

    /** k, or the number of classes if that is smaller. */
    var count = 0
        internal set
    internal var imageWidth = 0
    internal var imageHeight = 0
    var preprocessingNanos = 0L
        internal set
    var inferenceNanos = 0L
        internal set
    var readingNanos = 0L
        internal set

    /** A copy of the most probable classes. */
    fun predictions(): List<Prediction> =
        classes.take(count).map { Prediction(it, labels[it], probabilities[it]) }

    /** The gallery's most similar pictures, the most similar one first; none without a gallery. */
    fun similar(): List<SimilarPicture> = comparison?.similar().orEmpty()

    /** The feature map as a picture; null of other outputs. */
    fun patchColours(): PatchColours? = components?.colours()

    /** The class of each pixel; null of other outputs. */
    fun mask(): Mask? = pixels?.mask(imageWidth, imageHeight)
}

/** A class and how probable it is. */
data class Prediction(val classIndex: Int, val label: String, val probability: Double)

private const val WARM_UP_RUNS = 3
private const val WARM_UP_NANOS = 1_000_000_000L
