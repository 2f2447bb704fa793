package dev.kerasvit.core

import java.io.File
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.io.TempDir

class StoredClassesTest {
    @TempDir
    lateinit var temporary: File
    private val folder by lazy { File(temporary, "files/classes") }
    private val stored by lazy { StoredClasses(folder) }
    private val description = readBundle(featuresFiles()).description
    private val other = description.copy(sha256 = "0".repeat(64))

    @Test
    fun `classes are kept by the model, with unit vectors and thumbnails`() {
        stored.add(description, "cup", listOf(picture(3f, 0f, 4f), picture(0f, 2f, 0f)))
        stored.add(description, "spoon", listOf(picture(0f, 0f, -1f)))
        stored.add(description, "cup", listOf(picture(1f, 0f, 0f)))
        val gallery = assertNotNull(StoredClasses(folder).read(description))
        assertEquals(listOf("cup", "spoon"), gallery.classes)
        assertEquals(Vote(Voters.MEANS, temperature = 0.07), gallery.vote)
        val names = listOf("cup 1", "cup 2", "spoon 1", "cup 3")
        assertEquals(names, gallery.pictures.map { it.name })
        assertEquals(listOf(0, 0, 1, 0), gallery.pictures.map { it.target })
        assertEquals(listOf(3, 1, 0), listOf("cup", "spoon", "fork").map(gallery::countOf))
        val row = FloatArray(3)
        gallery.pictures[0].copyFeatures(row)
        assertContentEquals(floatArrayOf(0.6f, 0f, 0.8f), row)
        assertEquals(4, gallery.pictures[0].openThumbnail().use { it.read() })
        assertEquals(-1 and 0xFF, gallery.pictures[2].openThumbnail().use { it.read() })
        assertNull(stored.read(other))
    }

    @Test
    fun `a class is removed with its pictures, and the last one with all`() {
        stored.add(description, "cup", listOf(picture(0f, 2f, 0f)))
        stored.add(description, "spoon", listOf(picture(0f, 0f, 1f)))
        stored.remove(description, "fork")
        stored.remove(description, "cup")
        val gallery = assertNotNull(stored.read(description))
        assertEquals(listOf("spoon"), gallery.classes)
        assertEquals("spoon 1" to 0, gallery.pictures.single().run { name to target })
        stored.remove(description, "spoon")
        assertNull(stored.read(description))
        assertEquals(0, folder.list().orEmpty().size)
    }

    @TestFactory
    fun `what is damaged is ignored, and removed`(): List<DynamicTest> = mapOf(
        "no JSON" to { place: File -> File(place, "gallery/gallery.json").writeText("{") },
        "no vectors" to { place -> File(place, "gallery/vectors.bin").delete() },
        "a changed vector" to { place ->
            File(place, "gallery/vectors.bin").writeBytes(ByteArray(12))
        },
        "another model" to { place ->
            File(place, "gallery/gallery.json").run { writeText(readText().replace("sha", "x")) }
        },
    ).map { (what, damage) ->
        dynamicTest(what) {
            stored.add(description, "cup", listOf(picture(0f, 2f, 0f)))
            val place = File(folder, description.sha256)
            damage(place)
            assertNull(stored.read(description))
            assertFalse(place.exists())
            stored.add(description, "cup", listOf(picture(0f, 2f, 0f)))
            assertEquals(1, stored.read(description).countOf("cup"))
        }
    }

    @Test
    fun `what an ended process left goes, and a newer gallery stays`() {
        File(folder, ".written/gallery").mkdirs()
        stored.add(description, "cup", listOf(picture(0f, 2f, 0f)))
        assertEquals(listOf(description.sha256), folder.list().orEmpty().toList())
        val json = File(folder, "${description.sha256}/gallery/gallery.json")
        json.writeText(json.readText().replace("\"format\":1", "\"format\":2"))
        assertNull(stored.read(description))
        assertTrue(json.exists())
    }

    @Test
    fun `features of zeros are no picture`() {
        assertNull(NewPicture.of(FloatArray(3), byteArrayOf()))
        stored.add(description, "cup", emptyList())
        assertNull(stored.read(description))
    }

    @Test
    fun `two galleries become one, whose first decides how all vote`() {
        val bundle = readBundle(
            featuresFiles().withGallery(
                listOf("cat", "dog"), 1 to listOf(0f, 1f, 0f), 0 to listOf(1f, 0f, 0f),
                null to listOf(0f, 0f, 1f),
            ),
        )
        assertNull(merged(null, stored.read(description)))
        assertEquals(bundle.gallery, merged(bundle.gallery, null))
        stored.add(description, "owl", listOf(picture(0f, 0f, 1f)))
        stored.add(description, "dog", listOf(picture(0f, 0f, 1f)))
        val both = assertNotNull(merged(bundle.gallery, stored.read(description)))
        assertEquals(listOf("cat", "dog", "owl"), both.classes)
        assertEquals(listOf(1, 0, null, 2, 1), both.pictures.map { it.target })
        assertEquals(Voters.PICTURES, both.vote.of)
        assertEquals(both, merged(null, both))
    }

    private fun picture(vararg features: Float): NewPicture =
        checkNotNull(NewPicture.of(features, byteArrayOf(features[2].toInt().toByte())))
}
