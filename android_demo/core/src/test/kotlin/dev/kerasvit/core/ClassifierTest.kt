package dev.kerasvit.core

import java.nio.ByteBuffer
import kotlin.math.exp
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue

class ClassifierTest {
    private val bundle = readBundle(sampleFiles())
    private val info = EngineInfo(Backend.CPU, 1, "Fake 1.0", 1)

    @Test
    fun `an image becomes its most probable classes`() {
        val result = Classifier(bundle, FakeEngine(info), k = 2).classify(noiseImage(5, 4))
        assertEquals(listOf(3.5f, 11.5f, -2f), result.scores.toList())
        assertEquals(listOf(1, 0), result.predictions().map { it.classIndex })
        assertEquals(1 / (1 + exp(-8.0) + exp(-13.5)), result.predictions()[0].probability, 1e-15)
        assertEquals(1.0, result.probabilities.sum(), 1e-15)
    }

    @Test
    fun `k may exceed the classes`() {
        val result = Classifier(bundle, FakeEngine(info), k = 7).classify(noiseImage(5, 4))
        assertEquals(listOf(1, 0, 2), result.predictions().map { it.classIndex })
    }

    @Test
    fun `each step is timed apart`() {
        val engine = FakeEngine(info) { Thread.sleep(5) }
        val classifier = Classifier(bundle, engine)
        repeat(5) { classifier.classify(noiseImage(5, 4)) }
        assertEquals(2, classifier.inference.count) // after a warm-up of three
        assertTrue(classifier.inference.median() >= 5, "${classifier.inference.median()}")
        assertTrue(classifier.preprocessing.median() < 5 && classifier.reading.median() < 5)
    }

    @Test
    fun `scores that are not finite are an engine's failure`() {
        val output = bundle.description.output.copy(type = DataType.FLOAT32, quantization = null)
        val floats = bundle.copy(description = bundle.description.copy(output = output))
        val engine = FakeEngine(info) { it.putFloat(4, Float.NaN) }
        val error = assertFailsWith<EngineException> {
            Classifier(floats, engine).classify(noiseImage(5, 4))
        }
        assertEquals(EngineFailure.NOT_FINITE, error.kind)
    }

    @Test
    fun `closing it closes the engine`() {
        val engine = FakeEngine(info)
        Classifier(bundle, engine).close()
        assertTrue(engine.isClosed)
    }

    @Test
    fun `camera frames are classified without allocating`() {
        val frames = Frames(bundle, FakeEngine(info))
        repeat(200) { frames.next() }
        val bytes = allocatedBy { repeat(100) { frames.next() } }
        assertTrue(bytes < 100 * SMALLEST_OBJECT, "$bytes bytes")
    }

    @Test
    fun `the count of allocated bytes sees one small object a frame`() {
        val kept = arrayOfNulls<Any>(100)
        val bytes = allocatedBy { for (i in kept.indices) kept[i] = ByteArray(1) }
        assertTrue(bytes >= 100 * SMALLEST_OBJECT, "$bytes bytes")
    }

    /** The app's whole path from a camera's planes to the most probable classes. */
    private class Frames(bundle: Bundle, engine: Engine) {
        private val planes = List(3) { ByteBuffer.allocateDirect(48 * 32) }
        private val converter = YuvConverter()
        private val frame = RgbImage(48, 32)
        private val upright = RgbImage(32, 48)
        private val classifier = Classifier(bundle, engine)

        fun next() {
            converter.convert(48, 32, planes[0], planes[1], planes[2], 48, 48, 2, frame)
            val image = Orientation.ROTATED_90.apply(frame, upright)
            check(classifier.classify(image).count == 3)
        }
    }
}
