package dev.kerasvit.core

import dev.kerasvit.core.BundleProblem.BadGallery
import dev.kerasvit.core.BundleProblem.BadZip
import dev.kerasvit.core.BundleProblem.Corrupt
import dev.kerasvit.core.BundleProblem.Missing
import dev.kerasvit.core.BundleProblem.NoBundle
import dev.kerasvit.core.BundleProblem.NoSpace
import dev.kerasvit.core.BundleProblem.Several
import dev.kerasvit.core.BundleProblem.WrongHash
import java.io.ByteArrayOutputStream
import java.io.File
import java.util.zip.ZipEntry
import java.util.zip.ZipOutputStream
import kotlin.test.Test
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.io.TempDir

class StoredBundlesTest {
    @TempDir
    lateinit var temporary: File
    private val folder by lazy { File(temporary, "files/models") }
    private val stored by lazy { StoredBundles(folder) }

    private val parts: Map<String, ByteArray> =
        sampleFiles().texts + ("model.tflite" to sampleModel)

    @TestFactory
    fun `bundles are found as people zip them`(): List<DynamicTest> = listOf(
        "" to "flowers-int8",
        "int8/" to "int8",
        "runs/my flowers/" to "my-flowers",
        "花/" to "花",
        "../" to "model",
        "${"a".repeat(99)}/" to "a".repeat(64),
    ).map { (place, name) ->
        dynamicTest("\"$place\"") {
            val others = listOf("${place}recipe.json", "__MACOSX/${place}._model.json")
            val zipped = parts.mapKeys { place + it.key } + others.associateWith { ByteArray(9) }
            assertEquals(name, add(zipped))
            assertEquals(listOf(name), stored.names())
            val kept = File(folder, name).walk().filter { it.isFile }.map { it.name }.toSet()
            assertEquals(parts.keys, kept)
            val files = stored.files(name)
            assertEquals(name, readBundle(files).name)
            assertContentEquals(sampleModel, files.open("model.tflite").readBytes())
            for (other in listOf("", "..", "$name/samples")) {
                assertFailsWith<IllegalArgumentException> { stored.remove(other) }
                assertFailsWith<IllegalArgumentException> { stored.files(other) }
            }
            stored.remove(name)
            assertEquals(emptyList(), stored.names())
        }
    }

    @Test
    fun `only pictures in samples are samples`() {
        val names = listOf("b.png", "a.JPG", "c.webp", ".a.png", "._b.png", "notes.txt", "png")
        val samples = names.associate { "int8/samples/$it" to it.toByteArray() }
        add(parts.mapKeys { "int8/" + it.key } + samples + ("int8/d.png" to ByteArray(1)))
        val files = stored.files("int8")
        assertEquals(listOf("a.JPG", "b.png", "c.webp"), files.samples())
        assertEquals("b.png", files.open("samples/b.png").readBytes().decodeToString())
    }

    @Test
    fun `a gallery comes with its bundle`() {
        val files = featuresFiles().withGallery(emptyList(), null to listOf(0f, 0f, 1f)).texts +
            ("model.tflite" to sampleModel)
        val others = listOf("gallery/0.png", "gallery/a/0.jpg", "gallery/notes.txt", "0.jpg")
        val small = "gallery/0.jpg" to byteArrayOf(7)
        add((files + small + others.associateWith { ByteArray(1) }).mapKeys { "int8/" + it.key })
        val kept = File(folder, "int8").walk().filter { it.isFile }
            .map { it.relativeTo(File(folder, "int8")).invariantSeparatorsPath }.toSet()
        assertEquals(files.keys + small.first, kept)
        val picture = checkNotNull(readBundle(stored.files("int8")).gallery).pictures.single()
        assertEquals(listOf<Byte>(7), picture.openThumbnail().use { it.readBytes() }.toList())
    }

    @Test
    fun `a bundle replaces the one of its name, with all of its files`() {
        add(parts + ("samples/old.png" to ByteArray(1)))
        add(parts + ("labels.txt" to "a\nb\nc\n".toByteArray()))
        assertEquals(listOf("flowers-int8"), stored.names())
        val files = stored.files("flowers-int8")
        assertEquals(listOf("a", "b", "c"), readBundle(files).labels)
        assertEquals(emptyList(), files.samples())
    }

    @TestFactory
    fun `what is no sound bundle is refused, and changes nothing`(): List<DynamicTest> = listOf(
        Triple("not a zip", BadZip::class, ByteArray(1000)),
        Triple("nothing", BadZip::class, ByteArray(0)),
        Triple("cut off", BadZip::class, zip(parts).let { it.copyOf(it.size - 30) }),
        Triple("a damaged file", BadZip::class, damaged()),
        Triple("no bundle", NoBundle::class, zip(parts - "model.json")),
        Triple("several", Several::class, zip(two)),
        Triple("without labels", Missing::class, zip(parts - "labels.txt")),
        Triple("another model", WrongHash::class, with("model.tflite", ByteArray(100))),
        Triple("a bad golden.json", Corrupt::class, with("golden.json", "{}".toByteArray())),
        Triple("too many samples", Corrupt::class, zip(parts + manySamples)),
        Triple("too many files", Corrupt::class, zip(parts + manyThumbnails)),
        Triple("a bad gallery", BadGallery::class, zip(badGallery)),
        Triple("a huge sample", Corrupt::class, with("samples/a.png", ByteArray(HUGE))),
    ).map { (what, expected, bytes) ->
        dynamicTest(what) {
            add(parts)
            val problem = assertFailsWith<BundleException> { addBytes(bytes) }.problem
            assertEquals(expected.java, problem.javaClass, "$problem")
            assertEquals(listOf("flowers-int8"), folder.list().orEmpty().toList())
            assertEquals(3, readBundle(stored.files("flowers-int8")).labels.size)
        }
    }

    @Test
    fun `the folders of several bundles are named`() {
        val problem = assertFailsWith<BundleException> { add(two) }.problem
        assertEquals(listOf("a", "x/b"), assertIs<Several>(problem).folders)
    }

    @Test
    fun `a zip that states a smaller size than it has is not read on`() {
        val bytes = zip(parts + ("samples/a.png" to ByteArray(100_000)))
        // The sizes of the last entry, in the directory at the zip's end and before its data.
        for (at in bytes.indices) if (bytes.startsAt(at, SIZE)) bytes[at + 1] = 0
        val problem = assertFailsWith<BundleException> { addBytes(bytes) }.problem
        assertIs<BadZip>(problem)
    }

    @Test
    fun `more than the storage holds is not begun`() {
        val full = object : File(temporary, "full") {
            override fun getUsableSpace() = 50L
        }
        val zip = File(temporary, "a.zip").apply { writeBytes(zip(parts)) }
        val problem = assertFailsWith<BundleException> { unpackBundle(zip, full) }.problem
        val needed = parts.values.sumOf { it.size }.toLong()
        assertEquals(NoSpace(needed, 50), problem)
        assertEquals(0, full.list().orEmpty().size)
    }

    @Test
    fun `what an ended process left is no bundle, and goes`() {
        File(folder, ".unpacked").mkdirs()
        File(folder, ".unpacked/samples").mkdirs()
        assertEquals(emptyList(), stored.names())
        add(parts)
        assertFalse(File(folder, ".unpacked").exists())
        assertTrue(File(folder, "flowers-int8").isDirectory)
    }

    private val two = parts.mapKeys { "a/" + it.key } + parts.mapKeys { "x/b/" + it.key }
    private val manyThumbnails =
        List(MOST_PICTURES + 3) { thumbnail(it) to ByteArray(0) }
    private val badGallery = parts - "labels.txt" + ("gallery/gallery.json" to ByteArray(9)) +
        ("model.json" to featuresFiles().texts.getValue("model.json"))
    private val manySamples = List(65) { "samples/$it.png" to ByteArray(1) }

    private fun with(file: String, bytes: ByteArray) = zip(parts + (file to bytes))

    // One bit of a sample, which nothing but the zip's own checksum tells.
    private fun damaged(): ByteArray {
        val bytes = zip(parts + ("samples/a.png" to ByteArray(1000) { 7 }), isDeflated = false)
        val at = bytes.indices.first { bytes.startsAt(it, ByteArray(100) { 7 }) }
        bytes[at + 500] = 8
        return bytes
    }

    private fun add(entries: Map<String, ByteArray>): String = addBytes(zip(entries))

    private fun addBytes(bytes: ByteArray): String {
        val zip = File(temporary, "download").apply { writeBytes(bytes) }
        return stored.add(zip, "flowers-int8.zip")
    }
}

private const val HUGE = (32 shl 20) + 1
private val SIZE = byteArrayOf(0xA0.toByte(), 0x86.toByte(), 1, 0) // 100,000

private fun ByteArray.startsAt(at: Int, part: ByteArray): Boolean =
    at + part.size <= size && part.indices.all { this[at + it] == part[it] }

private fun zip(entries: Map<String, ByteArray>, isDeflated: Boolean = true): ByteArray {
    val bytes = ByteArrayOutputStream()
    ZipOutputStream(bytes).use { zip ->
        if (!isDeflated) zip.setLevel(0)
        for ((name, content) in entries) {
            zip.putNextEntry(ZipEntry(name))
            zip.write(content)
        }
    }
    return bytes.toByteArray()
}
