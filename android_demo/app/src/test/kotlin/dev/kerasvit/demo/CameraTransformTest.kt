package dev.kerasvit.demo

import dev.kerasvit.core.Orientation
import dev.kerasvit.core.RgbImage
import dev.kerasvit.demo.screen.cameraTransform
import kotlin.test.assertEquals
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** Where the corners of a camera's picture are on the screen. */
@RunWith(RobolectricTestRunner::class)
class CameraTransformTest {
    /**
     * The system shows the picture of a [SENSOR] on its side as 480 x 640, stretched to the view.
     * The view's corners, clockwise from the top left, therefore are the picture's.
     */
    @Test
    fun `the whole picture is shown, centred, and turned against the display`() {
        // 250 / 640 of 480 are 187.5, 250 / 480 of 640 are 333.3.
        val upright = listOf(106.25f to 0f, 293.75f to 0f, 293.75f to 250f, 106.25f to 250f)
        val lying = listOf(33.33f to 250f, 33.33f to 0f, 366.67f to 0f, 366.67f to 250f)
        val expected = mapOf(
            0 to upright,
            90 to lying,
            180 to upright.drop(2) + upright.take(2),
            270 to lying.drop(2) + lying.take(2),
        )
        for ((degrees, corners) in expected) assertCorners(corners, corners(SENSOR, degrees))
    }

    @Test
    fun `the whole picture is also shown in a tall window of a phone that lies`() {
        // 250 / 640 of 480 are 187.5.
        val lying = listOf(0f to 293.75f, 0f to 106.25f, 250f to 106.25f, 250f to 293.75f)
        assertCorners(lying, corners(SENSOR, displayDegrees = 90, width = HEIGHT, height = WIDTH))
    }

    @Test
    fun `a sensor that does not lie on its side gives a wide picture`() {
        val wide = listOf(33.33f to 0f, 366.67f to 0f, 366.67f to 250f, 33.33f to 250f)
        for (sensor in listOf(0, 180)) {
            assertCorners(wide, corners(sensor, displayDegrees = 0))
            assertCorners(wide.drop(2) + wide.take(2), corners(sensor, displayDegrees = 180))
        }
    }

    @Test
    fun `the screen shows the picture as the model sees it, the front camera's in a mirror`() {
        for (sensor in DEGREES) for (display in DEGREES) for (isFront in listOf(false, true)) {
            // What the system gives the view: upright where the display is in its natural position.
            val given = seen(Orientation.ofCamera(sensor, 0, isFront), isFront)
            val shown = MutableList(4) { 0 }
            for ((i, corner) in corners(sensor, display).withIndex()) {
                shown[placeOf(corner)] = given[i]
            }
            val model = seen(Orientation.ofCamera(sensor, display, isFront), isFront)
            assertEquals(model, shown, "sensor $sensor, display $display, front: $isFront")
        }
    }

    /** Numbers of the sensor's corners, clockwise from the top left of the turned picture. */
    private fun seen(orientation: Orientation, isMirrored: Boolean): List<Int> {
        val sensor = RgbImage(2, 2)
        for (pixel in 0 until 4) sensor.bytes[3 * pixel] = pixel.toByte()
        val bytes = orientation.apply(sensor, RgbImage(1, 1)).bytes
        val (topLeft, topRight, bottomLeft, bottomRight) = List(4) { bytes[3 * it].toInt() }
        return if (isMirrored) listOf(topRight, topLeft, bottomLeft, bottomRight)
        else listOf(topLeft, topRight, bottomRight, bottomLeft)
    }

    /** Which corner of the screen, clockwise from the top left. */
    private fun placeOf(point: Pair<Float, Float>): Int {
        val isRight = point.first > WIDTH / 2
        val isBelow = point.second > HEIGHT / 2
        return if (isBelow) { if (isRight) 2 else 3 } else { if (isRight) 1 else 0 }
    }

    private fun corners(
        sensorDegrees: Int,
        displayDegrees: Int,
        width: Int = WIDTH,
        height: Int = HEIGHT,
    ): List<Pair<Float, Float>> {
        val matrix = cameraTransform(width, height, 640, 480, sensorDegrees, displayDegrees)
        val (right, bottom) = width.toFloat() to height.toFloat()
        val points = floatArrayOf(0f, 0f, right, 0f, right, bottom, 0f, bottom)
        matrix.mapPoints(points)
        return points.toList().chunked(2) { (x, y) -> x to y }
    }

    private fun assertCorners(expected: List<Pair<Float, Float>>, found: List<Pair<Float, Float>>) {
        for ((corner, other) in expected zip found) {
            assertEquals(corner.first, other.first, 0.01f, "$expected, found $found")
            assertEquals(corner.second, other.second, 0.01f, "$expected, found $found")
        }
    }

    private companion object {
        const val SENSOR = 90
        const val WIDTH = 400
        const val HEIGHT = 250
        val DEGREES = listOf(0, 90, 180, 270)
    }
}
