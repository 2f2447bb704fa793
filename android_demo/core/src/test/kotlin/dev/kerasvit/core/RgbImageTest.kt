package dev.kerasvit.core

import java.nio.ByteBuffer
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertSame
import kotlinx.serialization.json.jsonObject

class RgbImageTest {
    private val alpha = fixture("alpha.json").jsonObject
    private val argb = ByteBuffer.wrap(alpha.decoded("argb")).asIntBuffer().let { buffer ->
        IntArray(buffer.limit()) { buffer.get(it) }
    }

    @Test
    fun `transparent pixels are blended with white as in Python`() {
        val image = RgbImage(alpha.int("width"), alpha.int("height"))
        image.putArgb(argb)
        assertContentEquals(alpha.decoded("rgb"), image.bytes)
    }

    @Test
    fun `strips of rows give the same image`() {
        val image = RgbImage(alpha.int("width"), alpha.int("height"))
        for (row in 0 until image.height step 5) {
            val rows = minOf(5, image.height - row)
            val strip = argb.copyOfRange(row * image.width, (row + rows) * image.width)
            image.putArgb(strip, row, rows)
        }
        assertContentEquals(alpha.decoded("rgb"), image.bytes)
    }

    @Test
    fun `rows outside are refused`() {
        val image = RgbImage(2, 2)
        for ((first, rows) in listOf(0 to 3, -1 to 1, 2 to 1, 1 to -1)) {
            assertFailsWith<IllegalArgumentException> { image.putArgb(IntArray(9), first, rows) }
        }
    }

    @Test
    fun `memory is only allocated for a larger image`() {
        val image = RgbImage(10, 10)
        val bytes = image.bytes
        image.reshape(5, 20)
        assertSame(bytes, image.bytes)
        assertEquals(5 to 20, image.run { width to height })
        image.reshape(1, 1)
        image.reshape(10, 10)
        assertSame(bytes, image.bytes)
        image.reshape(11, 10)
        assertEquals(330, image.bytes.size)
    }

    @Test
    fun `impossible sizes are refused with the size`() {
        for ((width, height) in listOf(0 to 1, 1 to 0, -1 to -1, 50_000 to 50_000)) {
            val error = assertFailsWith<IllegalArgumentException> { RgbImage(width, height) }
            assertEquals(true, "$width x $height" in error.message!!, error.message)
        }
        assertFailsWith<IllegalArgumentException> { RgbImage(2, 2, ByteArray(11)) }
    }

    @Test
    fun `a part has the pixels of its rectangle, and the whole is not copied`() {
        val image = noiseImage(5, 4)
        val part = image.crop(1, 2, 3, 2, into = RgbImage(9, 9))
        assertEquals(3 to 2, part.run { width to height })
        for (y in 0 until 2) for (x in 0 until 3) for (c in 0 until 3) {
            assertEquals(
                image.bytes[((y + 2) * 5 + x + 1) * 3 + c],
                part.bytes[(y * 3 + x) * 3 + c],
            )
        }
        assertSame(image, image.crop(0, 0, 5, 4, RgbImage(1, 1)))
        for ((left, top) in listOf(-1 to 0, 0 to -1, 3 to 0, 0 to 3)) {
            assertFailsWith<IllegalArgumentException> { image.crop(left, top, 3, 2, part) }
        }
    }

    @Test
    fun `only pictures over 16 megapixels are decoded smaller`() {
        assertEquals(1, sampleSize(4000, 4000))
        assertEquals(1, sampleSize(8, 8))
        assertEquals(2, sampleSize(8160, 6120))
        assertEquals(4, sampleSize(16320, 12240))
    }
}
