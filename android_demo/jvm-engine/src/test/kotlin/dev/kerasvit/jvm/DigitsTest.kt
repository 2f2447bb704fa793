package dev.kerasvit.jvm

import dev.kerasvit.core.Backend
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.EngineOptions
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.YuvConverter
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readGolden
import dev.kerasvit.core.readModel
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Base64
import kotlin.math.abs
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

/** The app's own pipeline on the demo's held-out digits, compared with Python's. */
class DigitsTest {
    private val fixture = checkNotNull(javaClass.getResourceAsStream("/fixtures/digits.json")).use {
        Json.parseToJsonElement(it.readBytes().decodeToString()).jsonObject
    }
    private val images = images(fixture)
    private val targets = fixture.getValue("targets").jsonArray.map { it.jsonPrimitive.int }

    @TestFactory
    fun `image for image the class and the scores are Python's`(): List<DynamicTest> =
        fixture.getValue("scores").jsonObject.flatMap { (name, encoded) ->
            val expected = floats(encoded.jsonPrimitive.content)
            listOf(Backend.CPU, Backend.CPU_PLAIN).map { backend ->
                dynamicTest("$name on $backend") { compare(name, backend, expected) }
            }
        }

    private fun compare(name: String, backend: Backend, expected: FloatArray) {
        assertEquals(359, images.size)
        val files = appBundle(name)
        val tolerance = readGolden(files, readBundle(files)).tolerances.scores
        var largest = 0.0
        var correct = 0
        classifier(name, backend).use { classifier ->
            for ((i, image) in images.withIndex()) {
                val result = classifier.classify(image)
                val scores = expected.copyOfRange(i * 10, i * 10 + 10)
                assertEquals(scores.indices.maxBy { scores[it] }, result.classes[0], "digit $i")
                for (k in scores.indices) {
                    largest = maxOf(largest, abs(scores[k] - result.scores[k]).toDouble())
                }
                if (result.classes[0] == targets[i]) correct++
            }
        }
        println("$name on $backend: scores differ by %.3g of %.3g".format(largest, tolerance))
        // This build of 2.19 rounds integer products otherwise than Google's: LiteRT 1.2 to 2.3
        // differ by no more than 0.165 on these images.
        val allowed = if (name == "digits-int8") 2 * tolerance else tolerance
        assertTrue(largest <= allowed, "differs by $largest, allowed are $allowed")
        assertEquals(353, correct) // 98.3%, as model.json says
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

    private fun classifier(name: String, backend: Backend): Classifier {
        val bundle = readBundle(appBundle(name))
        val model = readModel(appBundle(name), bundle.description)
        return Classifier(bundle, JvmEngines().create(model, EngineOptions(backend, 1)))
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

    private fun images(fixture: JsonObject): List<RgbImage> {
        val grey = Base64.getDecoder().decode(fixture.getValue("grey").jsonPrimitive.content)
        return grey.toList().chunked(64).map { pixels ->
            RgbImage(8, 8, ByteArray(192) { pixels[it / 3] })
        }
    }

    private fun floats(encoded: String): FloatArray {
        val raw = Base64.getDecoder().decode(encoded)
        val bytes = ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN)
        return FloatArray(bytes.capacity() / 4) { bytes.getFloat(it * 4) }
    }
}
