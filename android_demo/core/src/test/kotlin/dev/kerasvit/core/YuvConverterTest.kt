package dev.kerasvit.core

import java.nio.ByteBuffer
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray

class YuvConverterTest {
    private val cases = cases("yuv.json")
    private val rotations = listOf(
        Orientation.UPRIGHT,
        Orientation.ROTATED_90,
        Orientation.ROTATED_180,
        Orientation.ROTATED_270,
    )

    @Test
    fun `frames of every layout and rotation are those of NumPy`() {
        assertEquals(setOf(1, 2), cases.map { it.int("uv_pixel_stride") }.toSet())
        assertTrue(cases.any { it.int("width") % 2 == 1 })
        assertTrue(cases.any { it.int("y_row_stride") > it.int("width") })
        for (case in cases) check(case, YuvConverter(), RgbImage(1, 1), RgbImage(1, 1))
    }

    @Test
    fun `one converter takes frames of changing sizes`() {
        val converter = YuvConverter()
        val frame = RgbImage(1, 1)
        val upright = RgbImage(1, 1)
        for (case in cases + cases.reversed()) check(case, converter, frame, upright)
    }

    private fun check(case: JsonObject, converter: YuvConverter, frame: RgbImage, into: RgbImage) {
        converter.convert(case, frame)
        for ((turns, expected) in case.getValue("rotated").jsonArray.withIndex()) {
            val upright = rotations[turns].apply(frame, into)
            assertBytes(expected, upright.pixels(), "$turns turns of ${case - "rotated"}")
        }
    }

    private fun YuvConverter.convert(case: JsonObject, into: RgbImage) = convert(
        width = case.int("width"),
        height = case.int("height"),
        y = direct(case.decoded("y")),
        u = direct(case.decoded("u")),
        v = direct(case.decoded("v")),
        yRowStride = case.int("y_row_stride"),
        uvRowStride = case.int("uv_row_stride"),
        uvPixelStride = case.int("uv_pixel_stride"),
        into = into,
    )

    // Cameras give direct buffers, read-only and at any position.
    private fun direct(bytes: ByteArray): ByteBuffer =
        ByteBuffer.allocateDirect(bytes.size).put(bytes).asReadOnlyBuffer()
}
