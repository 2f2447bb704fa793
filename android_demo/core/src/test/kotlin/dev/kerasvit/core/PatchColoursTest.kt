package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import kotlinx.serialization.json.JsonObject

class PatchColoursTest {
    @Test
    fun `colours and fractions are those of Python`() {
        val cases = cases("patch_colours.json")
        assertEquals(listOf(3, 3, 3, 2, 0, 0), cases.map { it.doubles("fractions").size })
        for (case in cases) {
            val shape = shapeOf(case)
            assertAsPython(case, PatchComponents(shape).colours(featuresOf(case)), "$shape")
        }
    }

    @Test
    fun `nothing of an earlier map is left`() {
        val map = cases("patch_colours.json")[0]
        val components = PatchComponents(shapeOf(map))
        val features = featuresOf(map)
        components.compute(FloatArray(features.size) { features[it] * (it % 7) })
        assertAsPython(map, components.colours(features), "again")
        val constant = components.colours(FloatArray(features.size) { 0.1f })
        assertEquals(emptyList(), constant.fractions)
        assertTrue(constant.rgb.all { it == 0.5f })
    }

    @Test
    fun `the result is a copy`() {
        val map = cases("patch_colours.json")[0]
        val components = PatchComponents(shapeOf(map))
        val colours = components.colours(featuresOf(map))
        components.compute(FloatArray(shapeOf(map).size))
        assertAsPython(map, colours, "kept")
    }

    /** One of a hundred patches is another one: both percentiles are the same. */
    @Test
    fun `a component that nearly all patches share is not divided by nothing`() {
        val features = FloatArray(100) { if (it == 7) 3f else 0f }
        val colours = PatchComponents(MapShape(10, 10, 1)).colours(features)
        assertEquals(listOf(1.0), colours.fractions)
        val red = colours.rgb.filterIndexed { i, _ -> i % 3 == 0 }
        assertEquals(listOf(0f, 1f), red.distinct())
    }

    private fun PatchComponents.colours(features: FloatArray): PatchColours {
        compute(features)
        return colours()
    }

    private fun assertAsPython(case: JsonObject, colours: PatchColours, what: String) {
        val shape = shapeOf(case)
        assertEquals(shape.run { rows to columns }, colours.run { rows to columns }, what)
        assertNear(case.doubles("fractions"), colours.fractions, 1e-5, what)
        assertNear(case.doubles("colours"), colours.rgb.map { it.toDouble() }, 1e-4, what)
    }

    private fun assertNear(all: List<Double>, found: List<Double>, within: Double, what: String) {
        assertEquals(all.size, found.size, what)
        for (i in all.indices) assertEquals(all[i], found[i], within, "$what, $i")
    }

    private fun shapeOf(case: JsonObject): MapShape {
        val (rows, columns, features) = case.doubles("shape").map { it.toInt() }
        return MapShape(rows, columns, features)
    }

    private fun featuresOf(case: JsonObject): FloatArray {
        val bytes = ByteBuffer.wrap(case.decoded("features")).order(ByteOrder.LITTLE_ENDIAN)
        return FloatArray(bytes.capacity() / 4) { bytes.getFloat(it * 4) }
    }
}
