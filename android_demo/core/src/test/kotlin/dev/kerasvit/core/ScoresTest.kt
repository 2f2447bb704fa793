package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.math.abs
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertTrue
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject

class ScoresTest {
    private val fixture = fixture("scores.json").jsonObject
    private val predictions = fixture.getValue("predictions").jsonArray.map { it.jsonObject }

    @Test
    fun `integer outputs are dequantised as in Python`() {
        val cases = fixture.getValue("outputs").jsonArray.map { it.jsonObject }
        assertEquals(setOf("uint8", "int8"), cases.map { it.text("dtype") }.toSet())
        for (case in cases) {
            val raw = case.decoded("raw")
            val (scale, zeroPoint) = case.doubles("quantization")
            val type = DataType.values().single { it.jsonName == case.text("dtype") }
            val quantization = Quantization(scale.toFloat(), zeroPoint.toInt())
            val scores = FloatArray(raw.size)
            val output = Output(OutputKind.LOGITS, raw.size, type, quantization)
            readScores(ByteBuffer.wrap(raw), output, scores)
            assertBytes(case.getValue("scores"), scores.toBytes(), case.toString())
        }
    }

    @Test
    fun `float outputs are taken as they are`() {
        val scores = floatArrayOf(1.5f, -2f, 1e-30f)
        val read = FloatArray(3)
        val tensor = ByteBuffer.wrap(scores.toBytes()).order(ByteOrder.LITTLE_ENDIAN)
        readScores(tensor, Output(OutputKind.LOGITS, 3, DataType.FLOAT32, null), read)
        assertContentEquals(scores, read)
    }

    @Test
    fun `the most probable classes are those of decode_predictions, in its order`() {
        assertTrue(predictions.count { it.doubles("scores").size == 1 } >= 5)
        for (case in predictions) {
            val probabilities = probabilitiesOf(case)
            val top = TopK(5)
            val count = top.of(probabilities)
            val expected = case.doubles("classes").map { it.toInt() }
            assertEquals(expected, top.classes.take(count), case.toString())
            for ((place, probability) in case.doubles("probabilities").withIndex()) {
                val difference = abs(probability - probabilities[top.classes[place]])
                assertTrue(difference <= 1e-15, "off by $difference: $case")
            }
        }
    }

    @Test
    fun `a finder of classes can be used again`() {
        val top = TopK(3)
        val four = doubleArrayOf(.1, .2, .3, .4)
        val lists = listOf(four, doubleArrayOf(.5), doubleArrayOf(.4, .4, .2))
        for (values in lists) {
            val expected = values.indices.sortedByDescending { values[it] }.take(3)
            assertEquals(expected, top.classes.take(top.of(values)))
        }
    }

    @Test
    fun `scores that are not finite are told`() {
        for (bad in listOf(Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY)) {
            for (kind in OutputKind.values()) for (activation in Activation.values()) {
                val output = Output(kind, 3, DataType.FLOAT32, null, activation)
                val scores = floatArrayOf(0f, bad, 1f)
                assertFalse(probabilities(scores, output, DoubleArray(3)), "$bad")
            }
        }
    }

    private fun probabilitiesOf(case: JsonObject): DoubleArray {
        val scores = case.doubles("scores").map { it.toFloat() }.toFloatArray()
        val kind = OutputKind.values().single { it.jsonName == case.text("kind") }
        val activation = Activation.values().single { it.jsonName == case.text("activation") }
        val output = Output(kind, scores.size, DataType.FLOAT32, null, activation)
        return DoubleArray(output.answers).also { assertTrue(probabilities(scores, output, it)) }
    }

    private fun FloatArray.toBytes(): ByteArray {
        val buffer = ByteBuffer.allocate(size * 4).order(ByteOrder.LITTLE_ENDIAN)
        forEachIndexed { i, value -> buffer.putFloat(i * 4, value) }
        return buffer.array()
    }
}
