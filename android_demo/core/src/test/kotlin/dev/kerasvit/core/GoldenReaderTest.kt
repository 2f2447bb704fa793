package dev.kerasvit.core

import java.util.Base64
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

class GoldenReaderTest {
    private val bundle = readBundle(sampleFiles())

    @Test
    fun `a correct file is read`() {
        val golden = readGolden(sampleFiles(), bundle)
        assertEquals(5 to 4, golden.image.run { width to height })
        assertContentEquals(noiseImage(5, 4).bytes, golden.image.bytes)
        assertEquals(36, golden.tensor.size)
        assertContentEquals(floatArrayOf(3.5f, 11.5f, -2f), golden.scores)
        assertEquals(Tolerances(1e-6, 0.75, 1.5), golden.tolerances)
    }

    @Test
    fun `the tolerance of half precision may be absent`() {
        val files = sampleFiles().edit("golden.json", ", \"scores_half_precision\": 1.5", "")
        assertEquals(Tolerances(1e-6, 0.75, null), readGolden(files, bundle).tolerances)
    }

    @Test
    fun `an absent file and a newer format are told apart`() {
        assertProblem(BundleProblem.Missing("golden.json")) {
            readGolden(sampleFiles().with("golden.json", null as String?), bundle)
        }
        assertProblem(BundleProblem.NewerFormat("golden.json", 2, 1)) {
            readGolden(sampleFiles().edit("golden.json", "\"format\": 1", "\"format\": 2"), bundle)
        }
    }

    @Test
    fun `uint8 pixels are what the file takes`() {
        val input = input(type = DataType.UINT8, mean = 0f, scale = 1f)
        val pixels = bundle.copy(description = bundle.description.copy(input = input))
        val files = sampleFiles()
        val encoded = Base64.getEncoder().encodeToString(noise(36, 9))
        val text = files.texts.getValue("golden.json").decodeToString().replace(
            Regex("\"tensor\": \\{.*\\}"),
            """"tensor": {"dtype": "uint8", "shape": [3, 4, 3], "base64": "$encoded"}""",
        )
        val golden = readGolden(files.with("golden.json", text), pixels)
        val expected = FloatArray(36) { (noise(36, 9)[it].toInt() and 0xFF).toFloat() }
        assertContentEquals(expected, golden.tensor)
    }

    @Test
    fun `the tensor of a grey model has one channel`() {
        val input = input().copy(colours = Colours.GREY)
        val grey = bundle.copy(description = bundle.description.copy(input = input))
        val encoded = Base64.getEncoder().encodeToString(ByteArray(4 * 12))
        val files = sampleFiles()
        val text = files.texts.getValue("golden.json").decodeToString().replace(
            Regex("\"tensor\": \\{.*\\}"),
            """"tensor": {"dtype": "float32", "shape": [3, 4, 1], "base64": "$encoded"}""",
        )
        assertEquals(12, readGolden(files.with("golden.json", text), grey).tensor.size)
    }

    @Test
    fun `scores of masks state how many pixels may differ`() {
        val files = segmenterFiles()
        val golden = readGolden(files, readBundle(files))
        assertContentEquals(floatArrayOf(3.5f, 11.5f, -2f), golden.scores)
        assertEquals(0.125, golden.tolerances.pixels)
        val none = files.edit("golden.json", "\"pixels\": 0.125, ", "")
        assertCorrupt("golden.json", "tolerance.pixels: expected the part of the pixels that may") {
            readGolden(none, readBundle(none))
        }
        assertCorrupt("golden.json", "tolerance.pixels: expected a number, at least 0.") {
            readGolden(files.edit("golden.json", "0.125", "-0.125"), readBundle(files))
        }
        assertEquals(null, readGolden(sampleFiles(), bundle).tolerances.pixels)
    }

    @Test
    fun `a class map has bytes, each of which is a class`() {
        val files = classMapFiles()
        val golden = readGolden(files, readBundle(files))
        assertContentEquals(floatArrayOf(4f, 20f, 249f), golden.scores)
        assertEquals(null, golden.tolerances.pixels)
        assertCorrupt("golden.json", "scores.base64: expected classes below 250. Received: 250.") {
            readGolden(files.edit("golden.json", "BBT5", "BBT6"), readBundle(files))
        }
    }

    @Test
    fun `a feature map has its own shape, and may be large`() {
        val files = mapFiles()
        val scores = readGolden(files, readBundle(files)).scores
        assertContentEquals(floatArrayOf(3.5f, 11.5f, -2f), scores)
        assertCorrupt("golden.json", "scores.shape: expected [3, 1, 1]") {
            readGolden(files.edit("golden.json", "[3, 1, 1]", "[1, 3, 1]"), readBundle(files))
        }
        val large = files.edit("model.json", "[1, 3, 1, 1]", "[1, 37, 37, 768]")
        val encoded = Base64.getEncoder().encodeToString(ByteArray(37 * 37 * 768 * 4))
        val values = "[37, 37, 768], \"base64\": \"$encoded"
        val text = files.texts.getValue("golden.json").decodeToString()
            .replace(Regex("\\[3, 1, 1], \"base64\": \"[^\"]*"), values)
        val golden = readGolden(large.with("golden.json", text), readBundle(large))
        assertEquals(37 * 37 * 768, golden.scores.size)
    }

    @TestFactory
    fun `every bad form is refused with what was expected`(): List<DynamicTest> = listOf(
        Triple("\"format\": 1,", "", "format is missing"),
        Triple("\"image\":", "\"picture\":", "image is missing"),
        Triple("\"dtype\": \"uint8\"", "\"dtype\": \"float32\"", "image.dtype: expected uint8"),
        Triple("[4, 5, 3]", "[5, 5, 3]", "image.base64: expected 75 bytes. Received: 60."),
        Triple("[4, 5, 3]", "[4, 5]", "image.shape: expected [height, width, 3]"),
        Triple("[4, 5, 3]", "[4, 5, 4]", "image.shape: expected [height, width, 3]"),
        Triple("[4, 5, 3]", "[0, 5, 3]", "image.shape: expected [height, width, 3]"),
        Triple("[4, 5, 3]", "[100000, 100000, 3]", "image.shape: expected [height, width, 3]"),
        Triple("[4, 5, 3]", "{}", "image.shape: expected a list"),
        Triple("\"tensor\": {", "\"tensors\": {", "tensor is missing"),
        Triple(
            "[3, 4, 3], \"base64\": \"",
            "[3, 4, 3], \"base64\": \"*",
            "tensor.base64: expected base64",
        ),
        Triple(
            "[3, 4, 3], \"base64\": \"",
            "[3, 4, 3], \"base64\": \"AAAA",
            "tensor.base64: expected 144 bytes",
        ),
        Triple("[3, 4, 3]", "[4, 3, 3]", "tensor.shape: expected [3, 4, 3]"),
        Triple(
            "[3, 4, 3], \"base64\": \"",
            "[3, 4, 3], \"base64\": 5, \"x\": \"",
            "tensor.base64: expected text",
        ),
        Triple("\"shape\": [3],", "\"shape\": [2],", "scores.shape: expected [3]"),
        Triple("\"shape\": [3],", "", "scores.shape is missing"),
        // The score 3.5 becomes NaN.
        Triple("AABgQAAA", "AADAfwAA", "scores.base64: expected finite numbers"),
        Triple("\"tolerance\":", "\"tolerances\":", "tolerance is missing"),
        Triple("\"tensor\": 1e-6, ", "", "tolerance.tensor is missing"),
        Triple("\"tensor\": 1e-6", "\"tensor\": 0", "tolerance.tensor: expected a positive number"),
        Triple(
            "\"scores\": 0.75",
            "\"scores\": -1",
            "tolerance.scores: expected a positive number",
        ),
        Triple(
            "\"scores\": 0.75",
            "\"scores\": \"1\"",
            "tolerance.scores: expected a finite number",
        ),
        Triple("0.75, \"scores_half_precision\": 1.5", "0.75, \"scores_half_precision\": null",
            "tolerance.scores_half_precision: expected a finite number"),
    ).map { (old, new, detail) ->
        dynamicTest("$old -> $new") {
            assertCorrupt("golden.json", detail) {
                readGolden(sampleFiles().edit("golden.json", old, new), bundle)
            }
        }
    }
}
