package dev.kerasvit.jvm

import dev.kerasvit.core.Bundle
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.YuvConverter
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readGolden
import dev.kerasvit.core.readModel
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.testing.HeldOutDigits
import dev.kerasvit.testing.SMALLEST_OBJECT
import dev.kerasvit.testing.allocatedBy
import java.nio.ByteBuffer
import kotlin.math.abs
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

/** The app's own pipeline on the demo's held-out digits, compared with Python's. */
class DigitsTest {
    private val digits = HeldOutDigits()

    @TestFactory
    fun `image for image the class is Python's`(): List<DynamicTest> = tests { name, backend ->
        val answers = classifier(name, backend).use(::classifyAll)
        for ((i, answer) in answers.withIndex()) {
            val scores = digits.scores.getValue(name)[i]
            assertEquals(scores.indices.maxBy { scores[it] }, answer.best, "digit $i")
        }
        val correct = answers.indices.count { answers[it].best == digits.targets[it] }
        assertEquals(353, correct) // 98.3%, as model.json says
    }

    @TestFactory
    fun `the scores are Python's, within golden json's tolerance`(): List<DynamicTest> =
        tests { name, backend ->
            val files = appBundle(name)
            val tolerance = readGolden(files, readBundle(files)).tolerances.scores
            val answers = classifier(name, backend, ::roundedAsByGoogle).use(::classifyAll)
            val largest = answers.indices.maxOf { i ->
                val scores = digits.scores.getValue(name)[i]
                scores.indices.maxOf { abs(scores[it] - answers[i].scores[it]) }
            }
            println("$name on $backend: scores differ by %.3g of %.3g".format(largest, tolerance))
            assertTrue(largest <= tolerance, "differs by $largest, allowed are $tolerance")
        }

    @Test
    fun `a camera's frames are classified without allocating`() {
        for (name in listOf("digits-int8", "digits-float16")) {
            classifier(name, Backend.CPU).use { classifier ->
                val camera = Camera(640, 480)
                repeat(30) { camera.classifyNext(classifier) }
                val bytes = allocatedBy { repeat(100) { camera.classifyNext(classifier) } }
                println("$name: $bytes bytes allocated in 100 frames of 640 x 480")
                assertTrue(bytes < 100 * SMALLEST_OBJECT, "$name: $bytes bytes")
            }
        }
    }

    private fun tests(test: (name: String, backend: Backend) -> Unit): List<DynamicTest> =
        digits.scores.keys.flatMap { name ->
            listOf(Backend.CPU, Backend.CPU_PLAIN).map { backend ->
                dynamicTest("$name on $backend") { test(name, backend) }
            }
        }

    private class Answer(val best: Int, val scores: FloatArray)

    private fun classifyAll(classifier: Classifier): List<Answer> {
        assertEquals(359, digits.images.size)
        return digits.images.map { image ->
            classifier.classify(image).let { Answer(it.classes[0], it.scores.clone()) }
        }
    }

    private fun classifier(
        name: String,
        backend: Backend,
        change: (Bundle, Engine) -> Engine = { _, engine -> engine },
    ): Classifier {
        val bundle = readBundle(appBundle(name))
        val model = readModel(appBundle(name), bundle.description)
        val engine = JvmEngines().create(model, EngineOptions(backend, 1))
        return Classifier(bundle, change(bundle, engine))
    }

    /** Planes as a phone gives them: NV21, in portrait. */
    private class Camera(private val width: Int, private val height: Int) {
        private val luma = ByteBuffer.allocateDirect(width * height)
        private val chroma = List(2) { ByteBuffer.allocateDirect(width * height / 2) }
        private val converter = YuvConverter()
        private val frame = RgbImage(width, height)
        private val upright = RgbImage(height, width)
        private var count = 0

        fun classifyNext(classifier: Classifier) {
            luma.put(count, count.toByte())
            count++
            converter.convert(width, height, luma, chroma[0], chroma[1], width, width, 2, frame)
            classifier.classify(Orientation.ROTATED_90.apply(frame, upright))
        }
    }
}

/**
 * Rounds the pixels of an int8 file as Google's builds of the runtime do.
 *
 * A step of its input is 2/255, and each of the 256 values of a pixel lies exactly half-way between
 * two steps. Google's builds take the even one. This build of 2.18 takes one or the other, which
 * changes a score of these digits by up to 0.384; with the same pixels it is no further from
 * Google's builds than their own kernels are from XNNPACK, 0.165.
 */
private fun roundedAsByGoogle(bundle: Bundle, engine: Engine): Engine =
    if (bundle.description.precision == "int8") EvenSteps(engine) else engine

private class EvenSteps(private val engine: Engine) : Engine by engine {
    override fun run(input: ByteBuffer, output: ByteBuffer) {
        for (at in 0 until input.capacity() step 4) {
            val steps = Math.rint((input.getFloat(at) * (1f / STEP)).toDouble())
            input.putFloat(at, steps.toFloat() * STEP)
        }
        engine.run(input, output)
    }

    private companion object {
        const val STEP = 2f / 255f
    }
}
