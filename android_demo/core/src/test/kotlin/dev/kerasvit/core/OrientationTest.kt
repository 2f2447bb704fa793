package dev.kerasvit.core

import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertSame

class OrientationTest {
    @Test
    fun `every EXIF value turns an image as Pillow does`() {
        val cases = cases("orientations.json")
        assertEquals((0..9).toList(), cases.map { it.int("exif") })
        for (case in cases) {
            val orientation = Orientation.ofExif(case.int("exif"))
            val upright = orientation.apply(noiseImage(5, 3), RgbImage(9, 9))
            assertEquals(case.int("width") to case.int("height"), upright.run { width to height })
            assertBytes(case.getValue("pixels"), upright.pixels(), "EXIF ${case.int("exif")}")
        }
    }

    @Test
    fun `an upright image is not copied`() {
        val image = noiseImage(5, 3)
        assertSame(image, Orientation.UPRIGHT.apply(image, RgbImage(1, 1)))
    }

    @Test
    fun `an image is not turned in place`() {
        val image = noiseImage(5, 3)
        assertFailsWith<IllegalArgumentException> { Orientation.ROTATED_90.apply(image, image) }
    }

    @Test
    fun `frames of a camera are turned to the display`() {
        // Back cameras are mostly mounted at 90 degrees, front cameras at 270.
        val expected = mapOf(
            Triple(90, 0, false) to Orientation.ROTATED_90,
            Triple(90, 90, false) to Orientation.UPRIGHT,
            Triple(90, 180, false) to Orientation.ROTATED_270,
            Triple(90, 270, false) to Orientation.ROTATED_180,
            Triple(270, 0, true) to Orientation.ROTATED_270,
            Triple(270, 90, true) to Orientation.UPRIGHT,
            Triple(270, 180, true) to Orientation.ROTATED_90,
            Triple(270, 270, true) to Orientation.ROTATED_180,
            Triple(0, 0, false) to Orientation.UPRIGHT,
        )
        for ((camera, orientation) in expected) {
            val (sensor, display, isFront) = camera
            assertEquals(orientation, Orientation.ofCamera(sensor, display, isFront), "$camera")
        }
        assertFailsWith<IllegalArgumentException> { Orientation.ofCamera(45, 0, false) }
    }
}
