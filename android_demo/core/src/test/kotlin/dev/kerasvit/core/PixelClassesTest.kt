package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertTrue
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonPrimitive

class PixelClassesTest {
    private val cases = cases("masks.json")

    @Test
    fun `masks and shares are those of Python`() {
        assertEquals(9 to 8, cases.partition { it.doubles("shape").size == 3 }.sizes)
        for (case in cases) {
            val pixels = pixelsOf(case)
            assertTrue(pixels.compute(valuesOf(case)))
            assertAsPython(case, pixels.mask(7, 5))
        }
    }

    @Test
    fun `nothing of an earlier image is left, and a mask is a copy`() {
        val case = cases[0]
        val pixels = pixelsOf(case)
        val values = valuesOf(case)
        pixels.compute(FloatArray(values.size) { -values[it] })
        pixels.compute(values)
        val mask = pixels.mask(7, 5)
        pixels.compute(FloatArray(values.size))
        assertAsPython(case, mask)
        assertEquals(listOf(ClassShare(0, "0", 1.0)), pixels.mask(7, 5).shares)
    }

    @Test
    fun `a class map has no more than the classes that there are`() {
        val pixels = pixelsOf(cases.first { it.doubles("shape").size == 2 })
        assertTrue(pixels.compute(FloatArray(16) { 2f }))
        assertFalse(pixels.compute(FloatArray(16) { if (it == 15) 3f else 2f }))
    }

    @Test
    fun `a mask covers what the model sees`() {
        val shape = MaskShape(1, 1, 2, isClassMap = true)
        val pixels = PixelClasses(shape, input(4, 4, crop = 1.0), listOf("a", "b"))
        pixels.compute(floatArrayOf(1f))
        val seen = pixels.mask(imageWidth = 80, imageHeight = 20).seen
        assertEquals(listOf(30f, 0f, 50f, 20f), seen.run { listOf(left, top, right, bottom) })
    }

    @Test
    fun `pixels are computed without allocating`() {
        for (case in cases) {
            val (pixels, values) = pixelsOf(case) to valuesOf(case)
            repeat(200) { pixels.compute(values) }
            val bytes = allocatedBy { repeat(100) { pixels.compute(values) } }
            assertTrue(bytes < 100 * SMALLEST_OBJECT, "$bytes bytes")
        }
    }

    private fun assertAsPython(case: JsonObject, mask: Mask) {
        val what = "${case.doubles("shape")} for ${case.doubles("size")}"
        assertEquals(case.decoded("mask").map { it.toInt() }, mask.classes.toList(), what)
        val shares = case.getValue("shares").jsonArray.map { share ->
            val (number, part) = share.jsonArray.map { it.jsonPrimitive.content }
            ClassShare(number.toInt(), number, part.toDouble())
        }
        val rounded = mask.shares.map { it.copy(share = Math.rint(it.share * 1e9) / 1e9) }
        assertEquals(shares, rounded, what)
    }

    private fun pixelsOf(case: JsonObject): PixelClasses {
        val (rows, columns) = case.doubles("shape").map { it.toInt() }
        val (height, width) = case.doubles("size").map { it.toInt() }
        val classes = case.int("classes")
        val shape = MaskShape(rows, columns, classes, case.doubles("shape").size == 2)
        return PixelClasses(shape, input(width, height), List(classes) { "$it" })
    }

    private fun valuesOf(case: JsonObject): FloatArray {
        val bytes = ByteBuffer.wrap(case.decoded("values")).order(ByteOrder.LITTLE_ENDIAN)
        return FloatArray(bytes.capacity() / 4) { bytes.getFloat(it * 4) }
    }
}

private val Pair<List<*>, List<*>>.sizes get() = first.size to second.size
