package dev.kerasvit.demo

import androidx.compose.ui.geometry.Offset
import androidx.compose.ui.geometry.Rect
import androidx.compose.ui.geometry.Size
import dev.kerasvit.demo.screen.placeOf
import kotlin.test.assertEquals
import kotlin.test.assertTrue
import org.junit.Test

class PicturePlaceTest {
    private val window = Size(400f, 800f)
    private val free = Rect(0f, 100f, 400f, 600f)

    @Test
    fun `what the model sees is whole, in the middle of the part over which nothing lies`() {
        val pictures = listOf(Size(480f, 640f), Size(4000f, 3000f), Size(8f, 8f), Size(100f, 900f))
        for (size in pictures) for (part in listOf(1f, 0.875f, 0.5f)) {
            val side = minOf(size.width, size.height) * part
            val seen = Rect(
                Offset((size.width - side) / 2, (size.height - side) / 2),
                Size(side, side),
            )
            val place = placeOf(size, seen, window, free)
            assertTrue(free.inflate(0.01f).contains(place.seen.topLeft), "$size, $part: $place")
            assertTrue(place.seen.bottom <= free.bottom + 0.01f, "$size, $part: $place")
            assertEquals(free.center.x, place.seen.center.x, 0.01f)
            assertEquals(free.center.y, place.seen.center.y, 0.01f)
        }
    }

    @Test
    fun `it is as wide as the window where nothing else limits it`() {
        val place = placeOf(Size(480f, 640f), Rect(0f, 80f, 480f, 560f), window, free)
        assertEquals(400f, place.seen.width, 0.01f)
        assertEquals(Rect(0f, 83.33f, 400f, 616.67f).top, place.picture.top, 0.01f)
    }

    @Test
    fun `a picture is no larger than what fills the window`() {
        val place = placeOf(Size(400f, 800f), Rect(190f, 390f, 210f, 410f), window, free)
        assertEquals(window, place.picture.size)
    }
}
