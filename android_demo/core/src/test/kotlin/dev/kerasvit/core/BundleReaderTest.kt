package dev.kerasvit.core

import java.io.FilterInputStream
import java.io.IOException
import java.io.InputStream
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

class BundleReaderTest {
    @Test
    fun `a correct bundle is read`() {
        val bundle = readBundle(sampleFiles())
        assertEquals("sample", bundle.name)
        assertEquals(listOf("cat", "dog", "owl"), bundle.labels)
        bundle.description.run {
            assertEquals("ViT-Sample", model)
            assertEquals("float32", precision)
            assertEquals(12, parameters)
            assertEquals(5, operators)
            assertEquals("2.9.0", runtimeFloor)
            assertEquals(100, bytes)
            assertEquals(input().copy(scale = listOf(127.5f, 100f, 50f)), input)
            val quantization = Quantization(0.5f, -3)
            assertEquals(Output(OutputKind.LOGITS, 3, DataType.INT8, quantization), output)
        }
    }

    @TestFactory
    fun `other correct forms are read`(): List<DynamicTest> = listOf(
        Case("\"parameters\": 12", "\"parameters\": null") { assertEquals(null, parameters) },
        Case("\"crop\": null", "\"crop\": 0.875") { assertEquals(0.875, input.crop) },
        Case("\"crop\": null", "\"crop\": 1") { assertEquals(1.0, input.crop) },
        Case("\"height\": 3", "\"height\": 3.0") { assertEquals(3, input.height) },
        Case("\"mean\": 127.5", "\"mean\": [1, -2.5, 3e1]") {
            assertEquals(listOf(1f, -2.5f, 30f), input.mean)
        },
        Case("[127.5, 100, 50.0]", "2") { assertEquals(listOf(2f, 2f, 2f), input.scale) },
        Case("bilinear", "nearest") { assertEquals(Interpolation.NEAREST, input.interpolation) },
        Case("bilinear", "bicubic") { assertEquals(Interpolation.BICUBIC, input.interpolation) },
        Case("bilinear", "mediapipe") {
            assertEquals(Interpolation.MEDIAPIPE, input.interpolation)
        },
        Case("logits", "probabilities") { assertEquals(OutputKind.PROBABILITIES, output.kind) },
        Case("\"logits\"", "\"logits\", \"activation\": \"softmax\"") {
            assertTrue(output.isExclusive)
        },
        Case("\"logits\"", "\"logits\", \"activation\": \"sigmoid\"") {
            assertEquals(Activation.SIGMOID, output.activation)
            assertFalse(output.isExclusive)
            assertTrue(output.copy(size = 1).isExclusive)
        },
        Case("\"logits\"", "\"logits\", \"activation\": null") {
            assertEquals(Activation.SOFTMAX, output.activation)
        },
        Case("[1, 3, 4, 3], \"dtype\": \"float32\"", "[1, 3, 4, 3], \"dtype\": \"uint8\"") {
            assertEquals(DataType.UINT8, input.type)
            assertEquals(null, input.quantization)
        },
        Case(
            "4, 3], \"dtype\": \"float32\", \"channels\": \"RGB\"",
            "4, 1], \"dtype\": \"float32\", \"channels\": \"grey\"",
        ) {
            assertEquals(Colours.GREY, input.colours)
            assertEquals(12, input.size)
        },
        Case("\"channels\": \"RGB\"", "\"later\": 1") { assertEquals(Colours.RGB, input.colours) },
    ).map { case ->
        dynamicTest(case.new) {
            val files = sampleFiles().edit("model.json", case.old, case.new)
            readBundle(files).description.run(case.check)
        }
    }

    @TestFactory
    fun `every bad model_json is refused with what was expected`(): List<DynamicTest> = listOf(
        // old text, new text, the beginning of the detail
        Triple("{\n  \"format\": 1,", "", "expected JSON"),
        Triple("\"format\": 1,", "\"format\": 1", "expected JSON"),
        Triple("\"format\": 1,", "", "format is missing"),
        Triple("\"format\": 1,", "\"format\": \"1\",", "format: expected an integer"),
        Triple("\"format\": 1,", "\"format\": 0,", "format: expected an integer"),
        Triple("\"format\": 1,", "\"format\": 1.5,", "format: expected an integer"),
        Triple("\"format\": 1,", "\"format\": null,", "format: expected an integer"),
        Triple("\"format\": 1,", "\"format\": true,", "format: expected an integer"),
        Triple("-1.5e-3", "NaN", "expected JSON. Received: the value NaN."),
        Triple("-1.5e-3", "Infinity", "expected JSON. Received: the value Infinity."),
        Triple("-1.5e-3", "01", "expected JSON. Received: the value 01."),
        Triple("-1.5e-3", "word", "expected JSON. Received: the value word."),
        Triple("\"model\": \"ViT-Sample\",", "", "model is missing"),
        Triple("\"ViT-Sample\"", "7", "model: expected text. Received: 7."),
        Triple("\"ViT-Sample\"", "null", "model: expected text. Received: null."),
        Triple("\"precision\": \"float32\",", "", "precision is missing"),
        Triple("\"precision\": \"float32\"", "\"precision\": []", "precision: expected text"),
        Triple("\"parameters\": 12,", "", "parameters is missing"),
        Triple(
            "\"parameters\": 12",
            "\"parameters\": -1",
            "parameters: expected an integer from 0",
        ),
        Triple("\"parameters\": 12", "\"parameters\": \"12\"", "parameters: expected an integer"),
        Triple("\"input\":", "\"inputs\":", "input is missing"),
        Triple("[1, 3, 4, 3]", "[1, 4, 3, 3]", "input.shape: expected [1, 3, 4, 3]"),
        Triple("[1, 3, 4, 3]", "[3, 4, 3]", "input.shape: expected [1, 3, 4, 3]"),
        Triple("[1, 3, 4, 3]", "12", "input.shape: expected a list"),
        Triple("[1, 3, 4, 3]", "[1, 3, \"4\", 3]", "input.shape: expected integers"),
        Triple(
            "\"logits\"",
            "\"logits\", \"activation\": \"relu\"",
            "output.activation: expected softmax or sigmoid. Received: \"relu\".",
        ),
        Triple("\"RGB\"", "\"grey\"", "input.shape: expected [1, 3, 4, 1]"),
        Triple("\"RGB\"", "\"BGR\"", "input.channels: expected RGB or grey. Received: \"BGR\"."),
        Triple("\"height\": 3", "\"height\": 4", "input.shape: expected [1, 4, 4, 3]"),
        Triple("\"height\": 3", "\"height\": 0", "input.height: expected an integer from 1"),
        Triple("\"height\": 3", "\"height\": -3", "input.height: expected an integer from 1"),
        Triple("\"height\": 3", "\"height\": 3.5", "input.height: expected an integer from 1"),
        Triple("\"height\": 3", "\"height\": 2e9", "input.height: expected an integer from 1"),
        Triple("\"height\": 3", "\"height\": 1e999", "input.height: expected an integer from 1"),
        Triple("\"height\": 3", "\"height\": \"3\"", "input.height: expected an integer from 1"),
        Triple("\"height\": 3", "\"height\": [3]", "input.height: expected an integer from 1"),
        Triple("\"height\": 3, ", "", "input.height is missing"),
        Triple("\"width\": 4, ", "", "input.width is missing"),
        Triple("\"dtype\": \"float32\"", "\"dtype\": \"float16\"",
            "input.dtype: expected float32 or uint8 or int8. Received: \"float16\"."),
        Triple("\"dtype\": \"float32\"", "\"dtype\": 1", "input.dtype: expected text"),
        Triple("\"dtype\": \"float32\", ", "", "input.dtype is missing"),
        Triple(
            "\"channels\"",
            "\"quantization\": {}, \"channels\"",
            "input.quantization: expected none",
        ),
        Triple("\"crop\": null, ", "", "input.crop is missing"),
        Triple("\"crop\": null", "\"crop\": 0", "input.crop: expected null or a number in (0, 1]"),
        Triple(
            "\"crop\": null",
            "\"crop\": 1.01",
            "input.crop: expected null or a number in (0, 1]",
        ),
        Triple("\"crop\": null", "\"crop\": \"0.9\"", "input.crop: expected a finite number"),
        Triple("\"crop\": null", "\"crop\": false", "input.crop: expected a finite number"),
        Triple("\"bilinear\"", "\"lanczos\"",
            "input.interpolation: expected nearest or bilinear or bicubic or mediapipe. " +
                "Received: \"lanczos\"."),
        Triple(
            "\"crop\": null, \"interpolation\": \"bilinear\"",
            "\"crop\": 0.5, \"interpolation\": \"mediapipe\"",
            "input.crop: expected null with interpolation mediapipe",
        ),
        Triple("\"bilinear\"", "\"Bilinear\"", "input.interpolation: expected nearest"),
        Triple("\"bilinear\"", "null", "input.interpolation: expected text"),
        Triple("\"mean\": 127.5, ", "", "input.mean is missing"),
        Triple("\"mean\": 127.5", "\"mean\": null", "input.mean: expected a finite number"),
        Triple("\"mean\": 127.5", "\"mean\": \"127.5\"", "input.mean: expected a finite number"),
        Triple("\"mean\": 127.5", "\"mean\": [1, 2]", "input.mean: expected a number or 3"),
        Triple("\"mean\": 127.5", "\"mean\": []", "input.mean: expected a number or 3"),
        Triple("\"mean\": 127.5", "\"mean\": [1]", "input.mean: expected a number or 3"),
        Triple("\"mean\": 127.5", "\"mean\": [1, 2, null]", "input.mean: expected finite numbers"),
        Triple("\"mean\": 127.5", "\"mean\": 1e39", "input.mean: expected finite numbers in"),
        Triple("\"mean\": 127.5", "\"mean\": 1e400", "input.mean: expected a finite number"),
        Triple("[127.5, 100, 50.0]", "0", "input.scale: expected positive numbers"),
        Triple("[127.5, 100, 50.0]", "-1", "input.scale: expected positive numbers"),
        Triple("[127.5, 100, 50.0]", "[1, 0, 1]", "input.scale: expected positive"),
        Triple("[127.5, 100, 50.0]", "1e-60", "input.scale: expected positive"),
        Triple("\"output\":", "\"outputs\":", "output is missing"),
        Triple("\"output\": {", "\"output\": [], \"x\": {", "output: expected an object"),
        Triple("\"kind\": \"logits\", ", "", "output.kind is missing"),
        Triple("\"kind\": \"logits\"", "\"kind\": 3", "output.kind: expected text"),
        Triple("\"logits\"", "\"tokens\"",
            "output.kind: expected logits or probabilities or features or feature_map or"),
        Triple("\"classes\": 3", "\"classes\": 4", "output.shape: expected [1, 4]"),
        Triple("\"classes\": 3", "\"classes\": 0", "output.classes: expected an integer from 1"),
        Triple("\"classes\": 3", "\"classes\": 1e9", "output.classes: expected an integer from 1"),
        Triple("\"dtype\": \"int8\"", "\"dtype\": \"int16\"", "output.dtype: expected float32"),
        Triple(
            "\"dtype\": \"int8\"",
            "\"dtype\": \"float32\"",
            "output.quantization: expected none",
        ),
        Triple("\"scale\": 0.5", "\"scale\": 0", "output.quantization.scale: expected a positive"),
        Triple(
            "\"scale\": 0.5",
            "\"scale\": \"a\"",
            "output.quantization.scale: expected a finite",
        ),
        Triple("\"zero_point\": -3", "\"zero_point\": 200",
            "output.quantization.zero_point: expected an integer from -128 to 127. Received: 200."),
        Triple(", \"zero_point\": -3", "", "output.quantization.zero_point is missing"),
        Triple("\"runtime_floor\": \"2.9.0\",", "", "runtime_floor is missing"),
        Triple("\"2.9.0\"", "2.9", "runtime_floor: expected text"),
        Triple("\"bytes\": 100,", "", "bytes is missing"),
        Triple("\"bytes\": 100", "\"bytes\": 0", "bytes: expected an integer from 1"),
        Triple("\"bytes\": 100", "\"bytes\": 1e12", "bytes: expected an integer from 1"),
        Triple("\"sha256\": \"", "\"sha256\": \"A", "sha256: expected 64 small hexadecimal digits"),
        Triple("\"sha256\": \"", "\"sha256\": 1, \"x\": \"", "sha256: expected text"),
        Triple("{\"ADD\": 2, \"MUL\": 3}", "5", "operators: expected an object"),
        Triple("\"ADD\": 2", "\"ADD\": 0", "operators.ADD: expected an integer from 1"),
    ).map { (old, new, detail) ->
        dynamicTest("$old -> $new") {
            assertCorrupt("model.json", detail) {
                readBundle(sampleFiles().edit("model.json", old, new))
            }
        }
    }

    @TestFactory
    fun `whole files that are not JSON objects are refused`(): List<DynamicTest> = listOf(
        "" to "expected JSON",
        "[]" to "expected a JSON object. Received: [].",
        "null" to "expected a JSON object. Received: null.",
        "7" to "expected a JSON object. Received: 7.",
        "{} {}" to "expected JSON",
        "{\"a\": 1,}" to "expected JSON",
        "{a: 1}" to "expected JSON",
        "{\"a\": \"" to "expected JSON",
        "[".repeat(33) to "expected at most 32 levels of JSON",
        "{\"a\":".repeat(100_000) to "expected at most 32 levels of JSON",
        "{\"[[{\": \"${"[".repeat(100)}\\\"${"{".repeat(100)}\"}" to "format is missing",
        " ".repeat((4 shl 20) + 1) to "expected at most 4194304 bytes. Received: more.",
    ).map { (text, detail) ->
        dynamicTest("${text.length} characters: ${text.trim().take(30)}") {
            assertCorrupt("model.json", detail) {
                readBundle(sampleFiles().with("model.json", text))
            }
        }
    }

    @Test
    fun `bytes that are not UTF-8 are refused`() {
        val notText = byteArrayOf(0xC3.toByte(), 0x28)
        for (file in listOf("model.json", "labels.txt")) {
            assertCorrupt(file, "expected text in UTF-8") {
                readBundle(sampleFiles().with(file, notText))
            }
        }
    }

    @Test
    fun `each absent file is named`() {
        for (file in listOf("model.json", "labels.txt")) {
            assertProblem(BundleProblem.Missing(file)) {
                readBundle(sampleFiles().with(file, null as ByteArray?))
            }
        }
        assertProblem(BundleProblem.Missing("model.tflite")) {
            readBundle(MemoryFiles(sampleFiles().texts, model = null))
        }
    }

    @Test
    fun `a file that cannot be read is corrupt, not a crash`() {
        val sample = sampleFiles()
        val failing = object : BundleFiles by sample {
            override fun open(file: String): InputStream =
                object : FilterInputStream(sample.open(file)) {
                    override fun read(b: ByteArray, off: Int, len: Int): Int =
                        throw IOException("Input/output error")
                }
        }
        assertCorrupt("model.json", "cannot be read: Input/output error.") { readBundle(failing) }
    }

    @Test
    fun `a newer format is told apart from a corrupt one`() {
        assertProblem(BundleProblem.NewerFormat("model.json", 2, 1)) {
            readBundle(sampleFiles().edit("model.json", "\"format\": 1", "\"format\": 2"))
        }
    }

    @Test
    fun `a newer format is found before its unknown content`() {
        assertProblem(BundleProblem.NewerFormat("model.json", 3, 1)) {
            readBundle(sampleFiles().with("model.json", "{\"format\": 3, \"all\": \"new\"}"))
        }
    }

    @Test
    fun `a model of features has no labels, and as many features as its shape says`() {
        val bundle = readBundle(featuresFiles())
        val output = bundle.description.output
        assertTrue(output.givesFeatures)
        assertEquals(3, output.size)
        assertEquals(emptyList(), bundle.labels)
        assertEquals(null, bundle.gallery)
        for (shape in listOf("[1, 2, 3]", "[3]", "[2, 3]", "[1, 0]", "[1, 2000000]")) {
            val (old, new) = listOf("[1, 3]", shape).map { "\"shape\": $it" }
            assertCorrupt("model.json", "output.shape: expected [1, features]") {
                readBundle(featuresFiles().edit("model.json", old, new))
            }
        }
    }

    @Test
    fun `a feature map has the rows, columns and features of its shape, and no labels`() {
        val bundle = readBundle(mapFiles())
        val output = bundle.description.output
        assertEquals(MapShape(rows = 3, columns = 1, features = 1), output.map)
        assertEquals(3, output.size)
        assertFalse(output.givesFeatures || output.scoresClasses)
        assertEquals(emptyList(), bundle.labels)
        assertEquals(null, readBundle(mapFiles().with("gallery/gallery.json", "{")).gallery)
        assertEquals(1 shl 24, of("[1, 4096, 4096, 1]").size)
    }

    @Test
    fun `shapes that are no feature map's, or too large, are refused`() {
        val forms = listOf("[1, 3]", "[3, 1, 1]", "[2, 3, 1, 1]", "[1, 3, 1, 1, 1]", "[]")
        for (shape in forms) {
            assertCorrupt("model.json", "output.shape: expected [1, rows, columns, features]") {
                of(shape)
            }
        }
        val sizes = listOf(
            "[1, 0, 1, 1]", "[1, 1, -1, 1]", "[1, 1, 1, 0]", "[1, 1, 1, 1000001]",
            "[1, 4096, 4097, 1]", "[1, 4096, 2048, 3]", "[1, 16777216, 16777216, 65536]",
        )
        for (shape in sizes) {
            assertCorrupt("model.json", "output.shape: expected at most 1000000 features and") {
                of(shape)
            }
        }
    }

    @Test
    fun `a segmenter has the places and classes of its shape, and labels`() {
        val scores = readBundle(segmenterFiles())
        assertEquals(MaskShape(1, 1, 3, isClassMap = false), scores.description.output.mask)
        assertEquals(listOf("cat", "dog", "owl"), scores.labels)
        val map = readBundle(classMapFiles())
        assertEquals(MaskShape(3, 1, 250, isClassMap = true), map.description.output.mask)
        assertEquals(250, map.labels.size)
        for (output in listOf(scores, map).map { it.description.output }) {
            assertEquals(3, output.size)
            assertFalse(output.givesFeatures || output.scoresClasses)
        }
        // A mask's only class is no answer of two.
        val one = segmenterFiles().edit("model.json", "[1, 1, 1, 3]", "[1, 3, 1, 1]")
            .edit("model.json", "\"classes\": 3", "\"classes\": 1").with("labels.txt", "cat\n")
        assertEquals(listOf("cat"), readBundle(one).labels)
    }

    @Test
    fun `a segmenter's description that contradicts itself is refused`() {
        fun refused(files: MemoryFiles, old: String, new: String, message: String) =
            assertCorrupt("model.json", "output.$message") {
                readBundle(files.edit("model.json", old, new))
            }
        val (scores, map) = segmenterFiles() to classMapFiles()
        val of = "[1, 1, 1, 3]"
        refused(scores, of, "[1, 1, 3]", "shape: expected [1, rows, columns, classes]")
        refused(scores, of, "[1, 1, 1, 4]", "classes: expected 4, the last side of the shape")
        refused(scores, of, "[1, 4096, 2048, 3]", "shape: expected at most 1000000 classes and")
        refused(map, "[1, 3, 1]", "[1, 3, 1, 1]", "shape: expected [1, rows, columns]")
        refused(map, "[1, 3, 1]", "[1, 4096, 4097]", "shape: expected at most")
        refused(map, "\"uint8\"", "\"int8\"", "dtype: expected uint8 for a class map")
        refused(map, "\"classes\": 250", "\"classes\": 257", "classes: expected an integer from 1")
        val quantization = "\"quantization\": {\"scale\": 0.5, \"zero_point\": 0}, \"kind\""
        refused(map, "\"kind\"", quantization, "quantization: expected none for a class map")
        assertCorrupt("labels.txt", "expected 250 lines, one for each class. Received: 249.") {
            readBundle(map.with("labels.txt", "\n".repeat(249)))
        }
    }

    private fun of(shape: String): Output =
        readBundle(mapFiles().edit("model.json", "[1, 3, 1, 1]", shape)).description.output

    @Test
    fun `a model of another size is refused`() {
        assertCorrupt("model.tflite", "expected 100 bytes. Received: 99.") {
            readBundle(MemoryFiles(sampleFiles().texts, sampleModel.copyOf(99)))
        }
    }

    @Test
    fun `a model with one other byte is refused`() {
        val other = sampleModel.copyOf().also { it[50]++ }
        val files = MemoryFiles(sampleFiles().texts, other)
        val description = readBundle(files).description
        val problem = assertFailsWith<BundleException> {
            readModel(files, description)
        }.problem as BundleProblem.WrongHash
        assertTrue(problem.expected != problem.received)
        assertEquals(64, problem.received.length)
        assertTrue(problem.expected in sampleFiles().texts.getValue("model.json").decodeToString())
    }

    @TestFactory
    fun `labels are divided into lines as in Python`(): List<DynamicTest> = listOf(
        "cat\ndog\nowl" to listOf("cat", "dog", "owl"),
        "cat\r\ndog\r\nowl\r\n" to listOf("cat", "dog", "owl"),
        "cat\rdog\rowl\r" to listOf("cat", "dog", "owl"),
        "\n\n\n" to listOf("", "", ""),
        "a b \n\tc\nd\n" to listOf("a b ", "\tc", "d"),
        // str.splitlines would break at these.
        "a\u000Bb\u000C\nc\u0085d\u2028\n\u001Ce\n" to
            listOf("a\u000Bb\u000C", "c\u0085d\u2028", "\u001Ce"),
        "\u0000\ncrème brûlée\n虎猫\n" to listOf("\u0000", "crème brûlée", "虎猫"),
        "\uFEFFcat\ndog\nowl\n" to listOf("\uFEFFcat", "dog", "owl"),
    ).map { (text, labels) ->
        dynamicTest(labels.toString()) {
            assertEquals(labels, readBundle(sampleFiles().with("labels.txt", text)).labels)
        }
    }

    @TestFactory
    fun `another number of labels than classes is refused`(): List<DynamicTest> = listOf(
        "" to 0, "\n" to 0, "cat\ndog\n" to 2, "cat\ndog\nowl\n\n" to 4, "cat dog owl" to 1,
    ).map { (text, count) ->
        dynamicTest("$count") {
            assertCorrupt("labels.txt", "expected 3 lines, one for each class. Received: $count.") {
                readBundle(sampleFiles().with("labels.txt", text))
            }
        }
    }

    private class Case(val old: String, val new: String, val check: Description.() -> Unit)
}

fun assertProblem(expected: BundleProblem, read: () -> Unit) {
    assertEquals(expected, assertFailsWith<BundleException> { read() }.problem)
}

/** [detail] is the beginning of what is told; all of it is one line. */
fun assertCorrupt(file: String, detail: String, read: () -> Unit) {
    val problem = assertFailsWith<BundleException> { read() }.problem
    assertTrue(problem is BundleProblem.Corrupt, "$problem")
    assertEquals(file, problem.file)
    assertTrue(problem.detail.startsWith(detail), "expected $detail\nreceived ${problem.detail}")
    assertTrue('\n' !in problem.detail && problem.detail.length < 300, problem.detail)
}
