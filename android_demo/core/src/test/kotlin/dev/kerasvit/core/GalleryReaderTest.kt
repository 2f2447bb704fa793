package dev.kerasvit.core

import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

class GalleryReaderTest {
    private val files = featuresFiles().withGallery(
        listOf("cat", "dog"),
        1 to listOf(0f, 1f, 0f), null to listOf(1f, 0f, 0f), 0 to listOf(0.6f, 0f, 0.8f),
    )

    @Test
    fun `a gallery has names, classes and vectors, and opens thumbnails`() {
        val bundle = readBundle(files.with("gallery/2.jpg", byteArrayOf(5)))
        assertEquals(listOf("cat", "dog"), bundle.labels)
        val gallery = assertNotNull(bundle.gallery)
        assertEquals(Vote(Voters.PICTURES, 2, 0.5), gallery.vote)
        assertEquals(listOf("0.png", "1.png", "2.png"), gallery.pictures.map { it.name })
        assertEquals(listOf(1, null, 0), gallery.pictures.map { it.target })
        val row = FloatArray(3)
        gallery.pictures[2].copyFeatures(row)
        assertContentEquals(floatArrayOf(0.6f, 0f, 0.8f), row)
        val small = gallery.pictures[2].openThumbnail().use { it.readBytes() }
        assertContentEquals(byteArrayOf(5), small)
    }

    @TestFactory
    fun `what does not fit the model is refused in one sentence`(): List<DynamicTest> = listOf(
        // old text, new text, the beginning of the detail
        Triple("\"features\": 3", "\"features\": 4", "it is of another model.tflite."),
        Triple("\"sha256\": \"", "\"sha256\": \"0", "it is of another model.tflite."),
        Triple("\"target\": 1", "\"target\": 2", "pictures[0].target: expected an integer from 0"),
        Triple("\"target\": 1", "\"target\": -1", "pictures[0].target: expected an integer"),
        Triple("\"target\": 1", "\"target\": \"dog\"", "pictures[0].target: expected an integer"),
        Triple("\"target\": 1", "\"target\": 0", "the class dog has no pictures."),
        Triple("\"cat\"", "\"dog\"", "a class is there twice."),
        Triple("\"1.png\"", "null", "pictures[1].name: expected text"),
        Triple("\"cat\"", "7", "classes: expected texts"),
        Triple("\"pictures\": [", "\"pictures\": [8, ", "pictures: expected objects"),
        Triple("\"pictures\": [", "\"pictures\": [], \"x\": [", "expected 1 to 100000 pictures."),
        Triple("\"pictures\": [", "\"pictures\": [{\"name\": \"\"}, ", "expected 48 bytes."),
        Triple("\"of\": \"pictures\"", "\"of\": \"all\"", "vote.of: expected pictures or means"),
        Triple("\"neighbours\": 2", "\"neighbours\": 0", "vote.neighbours: expected an integer"),
        Triple("0.5}", "0}", "vote.temperature: expected a positive number"),
    ).map { (old, new, detail) ->
        dynamicTest("$old -> $new") {
            assertBad(files.edit("gallery/gallery.json", old, new), detail)
        }
    }

    @TestFactory
    fun `vectors of another size or length are refused`(): List<DynamicTest> = mapOf(
        byteArrayOf() to "expected 36 bytes. Received: 0.",
        ByteArray(35) to "expected 36 bytes. Received: 35.",
        ByteArray(36) to "expected rows of length 1.",
        ByteArray(36) { -1 } to "expected rows of length 1.", // NaN
    ).map { (bytes, detail) ->
        dynamicTest(detail) { assertBad(files.with("gallery/vectors.bin", bytes), detail) }
    }

    @Test
    fun `without its vectors a gallery is incomplete`() {
        assertBad(files.with("gallery/vectors.bin", null as ByteArray?), "it is missing.")
    }

    @Test
    fun `a newer gallery is told apart`() {
        assertProblem(BundleProblem.NewerFormat("gallery/gallery.json", 2, 1)) {
            readBundle(files.edit("gallery/gallery.json", "\"format\": 1", "\"format\": 2"))
        }
    }

    @Test
    fun `a gallery beside a classifier is not read`() {
        assertEquals(null, readBundle(sampleFiles().with("gallery/gallery.json", "{")).gallery)
    }

    private fun assertBad(files: MemoryFiles, detail: String) {
        val error = assertFailsWith<BundleException> { readBundle(files) }
        val problem = assertIs<BundleProblem.BadGallery>(error.problem)
        assertTrue(problem.detail.startsWith(detail), "expected $detail\nreceived $problem")
        assertTrue(problem.detail.endsWith(" Index the pictures again."), problem.detail)
    }
}
