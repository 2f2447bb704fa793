package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.math.abs
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

class PreprocessorTest {
    @Test
    fun `every pixel is that of Python for all sizes, crops and interpolations`() {
        val cases = cases("resizing.json")
        assertTrue(cases.size >= 146)
        for (case in cases) {
            val tensor = Preprocessor(pixelInput(case)).run(noiseImage(case))
            assertBytes(case.getValue("pixels"), tensor.toBytes(), describe(case))
        }
    }

    @Test
    fun `one preprocessor takes images of changing sizes`() {
        val cases = cases("resizing.json").filter { it.int("width") == 12 }
        for (alike in cases.groupBy { pixelInput(it) }.values) {
            val preprocessor = Preprocessor(pixelInput(alike[0]))
            for (case in alike + alike.reversed()) {
                val tensor = preprocessor.run(noiseImage(case))
                assertBytes(case.getValue("pixels"), tensor.toBytes(), describe(case))
            }
        }
    }

    @Test
    fun `every tensor is that of Python bit for bit`() {
        val cases = cases("tensors.json")
        assertEquals(setOf("float32", "uint8", "int8"), cases.map { it.text("dtype") }.toSet())
        for (case in cases) {
            val tensor = Preprocessor(tensorInput(case)).run(noiseImage(case))
            assertBytes(case.getValue("tensor"), tensor.toBytes(), describe(case))
        }
    }

    @Test
    fun `floats are within a millionth of Python's`() {
        val stored = cases("tensors.json").filter {
            it.text("dtype") == "float32" && "base64" in it.getValue("tensor").jsonObject
        }
        assertTrue(stored.size >= 4)
        for (case in stored) {
            val raw = case.getValue("tensor").jsonObject.decoded("base64")
            val expected = ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer()
            val tensor = Preprocessor(tensorInput(case)).run(noiseImage(case)).asFloatBuffer()
            for (i in 0 until expected.limit()) {
                val difference = abs(expected.get(i).toDouble() - tensor.get(i))
                assertTrue(difference <= 1e-6, "value $i of ${describe(case)}: off by $difference")
            }
        }
    }

    @Test
    fun `an image whose array is too long gives the same tensor`() {
        val input = input(width = 12, height = 10)
        val exact = noiseImage(13, 17)
        val longer = RgbImage(13, 17, exact.bytes + ByteArray(999) { 77 })
        assertContentEquals(
            Preprocessor(input).run(exact).toBytes(),
            Preprocessor(input).run(longer).toBytes(),
        )
    }

    private fun pixelInput(case: JsonObject) = input(
        width = case.int("width"),
        height = case.int("height"),
        type = DataType.UINT8,
        crop = case.doubleOrNull("crop"),
        interpolation = Interpolation.values().single { it.jsonName == case.text("interpolation") },
        mean = 0f,
        scale = 1f,
    )

    private fun tensorInput(case: JsonObject) = input(
        width = case.int("width"),
        height = case.int("height"),
        type = DataType.values().single { it.jsonName == case.text("dtype") },
        quantization = case.getValue("quantization").takeUnless { it is JsonNull }?.jsonArray?.let {
            Quantization(it[0].jsonPrimitive.content.toFloat(), it[1].jsonPrimitive.content.toInt())
        },
        crop = 0.875,
        interpolation = Interpolation.BICUBIC,
    ).copy(
        mean = channels(case, "mean"),
        scale = channels(case, "scale"),
        colours = Colours.values().single { it.channels == case.int("channels") },
    )

    private fun channels(case: JsonObject, name: String): List<Float> {
        val values = case.doubles(name)
        return List(3) { values[it % values.size].toFloat() }
    }

    private fun describe(case: JsonObject) = (case - "pixels" - "tensor").toString()

    private fun ByteBuffer.toBytes() = ByteArray(capacity()) { get(it) }
}
