package dev.kerasvit.core

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import java.nio.ByteBuffer
import kotlin.math.exp
import kotlin.math.sqrt
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertNotNull
import kotlin.test.assertNull
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
    fun `one score has two answers, the class and not the class`() {
        val one = readBundle(oneScoreFiles())
        val result = Classifier(one, FakeEngine(info)).classify(noiseImage(5, 4))
        assertEquals(listOf(3.5f), result.scores.toList())
        val named = result.predictions().map { one.labels[it.classIndex] }
        assertEquals(listOf("cat", "not cat"), named)
        assertEquals(1 / (1 + exp(-3.5)), result.predictions()[0].probability, 1e-15)
        assertEquals(1 / (1 + exp(3.5)), result.predictions()[1].probability, 1e-15)
    }

    @Test
    fun `features become the most similar pictures and parts of the votes`() {
        val files = featuresFiles().withGallery(
            listOf("cat", "dog"), 0 to listOf(1f, 0f, 0f), 1 to listOf(0f, 1f, 0f),
        )
        val result = Classifier(readBundle(files), FakeEngine(info)).classify(noiseImage(5, 4))
        assertEquals(listOf(3.5f, 11.5f, -2f), result.scores.toList())
        val length = sqrt(3.5 * 3.5 + 11.5 * 11.5 + 4)
        assertEquals(listOf("1.png", "0.png"), result.similar().map { it.picture.name })
        assertEquals(11.5 / length, result.similar()[0].similarity, 1e-15)
        assertEquals(listOf("dog", "cat"), result.predictions().map { it.label })
        val dog = 1 / (1 + exp((3.5 - 11.5) / length / 0.5))
        assertEquals(dog, result.predictions()[0].probability, 1e-15)
    }

    @Test
    fun `without a gallery there are features, and nothing to compare with`() {
        val result = Classifier(readBundle(featuresFiles()), FakeEngine(info))
            .classify(noiseImage(5, 4))
        assertEquals(listOf(3.5f, 11.5f, -2f), result.scores.toList())
        assertEquals(emptyList(), result.predictions())
        assertEquals(emptyList(), result.similar())
    }

    @Test
    fun `a feature map becomes colours, and neither classes nor similar pictures`() {
        val result = Classifier(readBundle(mapFiles()), FakeEngine(info))
            .classify(noiseImage(5, 4))
        assertEquals(listOf(3.5f, 11.5f, -2f), result.scores.toList())
        assertEquals(0 to 0, result.run { predictions().size to similar().size })
        val colours = assertNotNull(result.patchColours())
        assertEquals(3 to 1, colours.run { rows to columns })
        assertEquals(listOf(1.0), colours.fractions)
        // The percentiles of three values lie a little inside of them.
        val red = ((3.5 + 2 - 0.04 * 5.5) / (13.5 - 0.04 * (5.5 + 8))).toFloat()
        assertEquals(red, colours.rgb[0], 1e-6f)
        assertEquals(listOf(0.5f, 0.5f, 1f, 0.5f, 0.5f, 0f), colours.rgb.drop(1).dropLast(2))
        val classes = Classifier(bundle, FakeEngine(info)).classify(noiseImage(5, 4))
        assertNull(classes.patchColours())
    }

    @Test
    fun `scores of places become a mask, and no class of the whole picture`() {
        val result = Classifier(readBundle(segmenterFiles()), FakeEngine(info))
            .classify(noiseImage(5, 4))
        assertEquals(listOf(3.5f, 11.5f, -2f), result.scores.toList())
        assertEquals(0 to 0, result.run { predictions().size to probabilities.size })
        val mask = assertNotNull(result.mask())
        assertEquals(4 to 3, mask.run { width to height })
        assertEquals(listOf(ClassShare(1, "dog", 1.0)), mask.shares)
        assertEquals(5f to 4f, mask.seen.run { right to bottom })
        assertNull(Classifier(bundle, FakeEngine(info)).classify(noiseImage(5, 4)).mask())
    }

    @Test
    fun `a class map is a mask, in which every number must be a class`() {
        val map = readBundle(classMapFiles())
        val mask = Classifier(map, FakeEngine(info)).classify(noiseImage(5, 4)).mask()
        val shares = listOf(4, 20, 249).map { ClassShare(it, "class $it", 1 / 3.0) }
        assertEquals(shares, assertNotNull(mask).shares)
        val broken = Classifier(map, FakeEngine(info) { it.put(1, 250.toByte()) })
        val error = assertFailsWith<EngineException> { broken.classify(noiseImage(5, 4)) }
        assertEquals(EngineFailure.UNKNOWN_CLASS, error.kind)
    }

    @Test
    fun `each step is timed apart`() {
        val classifier = classifierThatTakes(millis = 5)
        repeat(5) { classifier.classify(noiseImage(5, 4)) }
        assertEquals(2, classifier.inference.count) // after a warm-up of three
        assertEquals(5.0, classifier.inference.median())
        assertEquals(0.0, classifier.preprocessing.median())
        assertEquals(0.0, classifier.reading.median())
    }

    @Test
    fun `a second is enough of a warm-up, and one run of a slow model`() {
        // Milliseconds of a run, and how many runs are left out.
        val cases = mapOf(1L to 3, 400L to 3, 500L to 2, 999L to 2, 1000L to 1, 20_000L to 1)
        for ((millis, left) in cases) {
            val classifier = classifierThatTakes(millis)
            repeat(2) {
                repeat(left) {
                    assertFalse(classifier.isWarm, "$millis ms")
                    classifier.classify(noiseImage(5, 4))
                }
                assertTrue(classifier.isWarm, "$millis ms")
                assertEquals(0, classifier.inference.count)
                classifier.classify(noiseImage(5, 4))
                assertEquals(1, classifier.inference.count)
                assertEquals(millis.toDouble(), classifier.inference.median())
                classifier.forgetTimes()
            }
        }
    }

    private fun classifierThatTakes(millis: Long): Classifier {
        var now = 0L
        val engine = FakeEngine(info) { now += millis * 1_000_000 }
        return Classifier(bundle, engine, clock = { now })
    }

    @Test
    fun `scores that are not finite are an engine's failure`() {
        val output = bundle.description.output.copy(type = DataType.FLOAT32, quantization = null)
        for (kind in OutputKind.values()) {
            val description = bundle.description.copy(output = output.copy(kind = kind))
            val engine = FakeEngine(info) { it.putFloat(4, Float.NaN) }
            val error = assertFailsWith<EngineException> {
                Classifier(bundle.copy(description = description), engine)
                    .classify(noiseImage(5, 4))
            }
            assertEquals(EngineFailure.NOT_FINITE, error.kind)
        }
    }

    @Test
    fun `closing it closes the engine`() {
        val engine = FakeEngine(info)
        Classifier(bundle, engine).close()
        assertTrue(engine.isClosed)
    }

    @Test
    fun `camera frames are classified, compared with a gallery, coloured, without allocating`() {
        val gallery = featuresFiles().withGallery(
            listOf("cat", "dog", "owl"), *Array(9) { it % 3 to listOf(0.6f, -0.8f, 0f) },
        )
        for (files in listOf(sampleFiles(), gallery, mapFiles())) {
            val frames = Frames(readBundle(files), FakeEngine(info))
            repeat(200) { frames.next() }
            val bytes = allocatedBy { repeat(100) { frames.next() } }
            assertTrue(bytes < 100 * SMALLEST_OBJECT, "$bytes bytes")
        }
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
            classifier.classify(image)
        }
    }
}
