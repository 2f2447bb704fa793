package dev.kerasvit.demo

import android.content.res.AssetManager
import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.Color
import android.graphics.ImageFormat
import android.graphics.Rect
import android.net.Uri
import androidx.camera.core.ImageInfo
import androidx.camera.core.ImageProxy
import dev.kerasvit.android.AssetFiles
import dev.kerasvit.android.KerasVit
import dev.kerasvit.android.PictureException
import dev.kerasvit.android.PictureFailure
import dev.kerasvit.android.bitmapOf
import dev.kerasvit.android.classify
import dev.kerasvit.android.classifyBlocking
import dev.kerasvit.android.liteRtEngines
import dev.kerasvit.android.rgbImageOf
import dev.kerasvit.android.segmentBlocking
import dev.kerasvit.core.BundleException
import dev.kerasvit.core.BundleProblem
import dev.kerasvit.core.ClassShare
import dev.kerasvit.core.CropBox
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.Mask
import dev.kerasvit.core.RgbImage
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.testing.HeldOutDigits
import java.io.ByteArrayOutputStream
import java.io.File
import java.io.FileNotFoundException
import java.nio.ByteBuffer
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertTrue
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.ExecutorCoroutineDispatcher
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.mockito.Mockito.mock
import org.mockito.Mockito.`when`
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf

/** The library's one class for apps, with LiteRT on the JVM. */
@RunWith(RobolectricTestRunner::class)
class KerasVitTest {
    @get:Rule
    val folder = TemporaryFolder()
    private val resolver = RuntimeEnvironment.getApplication().contentResolver
    private val digits = HeldOutDigits()
    private val image = digits.images[0]

    @Test
    fun `every kind of picture gets the same answer, and it is Python's`() = withModel { model ->
        val scores = digits.scores.getValue("digits-float16")[0]
        val rgb = rgb(image)
        val position = rgb.position()
        val expected = model.classifyBlocking(rgb, 8, 8)
        assertEquals(position, rgb.position())
        assertEquals(5, expected.size)
        assertEquals("${scores.indices.maxBy { scores[it] }}", expected[0].label)
        assertEquals(expected, model.classifyBlocking(bitmap(image)))
        assertEquals(expected, model.classifyBlocking(uri(bitmap(image)), resolver))
        val frame = cameraFrame(8, 8) { x, y -> image.level(x, y) }
        assertEquals(expected, model.classifyBlocking(frame, rotationDegrees = 0))
        // The sensor lies on its side: its left is what should be on top.
        val turned = cameraFrame(8, 8) { x, y -> image.level(7 - y, x) }
        assertEquals(expected, model.classifyBlocking(turned, rotationDegrees = 90))
        assertEquals(expected, model.classifyBlocking(proxy(image)))
    }

    @Test
    fun `a segmenter gives every kind of picture the same mask, and it is Python's`() {
        val sample = File(SEGMENTER, "samples/8.png")
        val bitmap = BitmapFactory.decodeFile(sample.path)
        val pixels = rgbImageOf(bitmap)
        KerasVit.openBlocking(FolderFiles(SEGMENTER), engines = jvmEngines()).use { model ->
            val mask = model.segmentBlocking(bitmap)
            assertEquals(listOf("background", "8", "6"), mask.shares.map { it.label })
            assertEquals(0.160, mask.shares[1].share, 0.01)
            assertEquals(32f to 32f, mask.seen.run { right to bottom })
            val others = listOf(
                model.segmentBlocking(uri(sample.readBytes()), resolver),
                model.segmentBlocking(ByteBuffer.wrap(pixels.bytes), 32, 32),
            )
            for (other in others) assertContentEquals(mask.classes, other.classes)
            val grey = model.segmentBlocking(bitmap(image)).classes
            val frame = cameraFrame(8, 8) { x, y -> image.level(x, y) }
            assertContentEquals(grey, model.segmentBlocking(frame, rotationDegrees = 0).classes)
            assertContentEquals(grey, model.segmentBlocking(proxy(image)).classes)
            assertEquals(emptyList(), model.classifyBlocking(bitmap))
        }
    }

    @Test
    fun `a mask as a bitmap has the colours of its classes, and no background`() {
        val shares = listOf(ClassShare(0, "background", 0.5), ClassShare(1, "cat", 0.5))
        val seen = CropBox(2, 1, open("digits-float16").use { it.bundle.description.input })
        val mask = Mask(2, 1, intArrayOf(1, 0), listOf("background", "cat"), shares, seen)
        val colours = bitmapOf(mask).run { getPixel(0, 0) to getPixel(1, 0) }
        assertEquals(Color.rgb(128, 0, 0) to Color.TRANSPARENT, colours)
    }

    @Test
    fun `a model that gives no masks says so`() = withModel { model ->
        val error = assertFailsWith<IllegalStateException> { model.segmentBlocking(bitmap(image)) }
        assertEquals("the model digits-float16 gives no masks", error.message)
    }

    @Test
    fun `coroutines share one model`() = withModel { model ->
        val alone = digits.images.take(20).map { model.classifyBlocking(bitmap(it)) }
        val together = runBlocking {
            digits.images.take(20).map { async { model.classify(bitmap(it)) } }.awaitAll()
        }
        assertEquals(alone, together)
        val frames = runBlocking { digits.images.take(20).map { model.classify(proxy(it)) } }
        assertEquals(alone, frames)
    }

    @Test
    fun `what is not a picture is told, and the model goes on`() = withModel { model ->
        val broken = uri(ByteArray(100))
        val unreadable = assertFailsWith<PictureException> {
            model.classifyBlocking(broken, resolver)
        }
        assertEquals(PictureFailure.UNREADABLE, unreadable.failure)
        val gone = assertFailsWith<PictureException> {
            model.classifyBlocking(Uri.parse("file:///nowhere.png"), resolver)
        }
        assertEquals(PictureFailure.GONE, gone.failure)
        val short = assertFailsWith<IllegalArgumentException> {
            model.classifyBlocking(ByteBuffer.allocate(191), 8, 8)
        }
        assertEquals("expected 192 bytes for 8 x 8 pixels. Received: 191.", short.message)
        assertEquals(5, model.classifyBlocking(bitmap(image)).size)
    }

    @Test
    fun `a closed model says so`() {
        val model = open("digits-int8")
        model.close()
        model.close()
        val error = assertFailsWith<IllegalStateException> { model.classifyBlocking(bitmap(image)) }
        assertEquals("the model digits-int8 is closed", error.message)
    }

    @Test
    fun `a model that is closed before its turn says so, and cancels nobody`() = runBlocking {
        val model = KerasVit.open(FolderFiles(File("../testing/models/digits-int8")))
        val thread = KerasVit::class.java.getDeclaredField("thread").apply { isAccessible = true }
        (thread.get(model) as ExecutorCoroutineDispatcher).close() // As `close` does meanwhile.
        val error = assertFailsWith<IllegalStateException> { model.classify(rgb(image), 8, 8) }
        assertEquals("the model digits-int8 is closed", error.message)
    }

    @Test
    fun `a bundle is checked, the backend is strict, and no thread is left behind`() {
        val copy = copyOfBundle(folder.root)
        File(copy, "model.tflite").run {
            writeBytes(readBytes().also { bytes -> bytes[bytes.size - 1]++ })
        }
        val damaged = assertFailsWith<BundleException> {
            KerasVit.openBlocking(FolderFiles(copy), engines = jvmEngines())
        }
        assertIs<BundleProblem.WrongHash>(damaged.problem)
        val refused = assertFailsWith<EngineException> {
            KerasVit.openBlocking(
                FolderFiles(File(MODELS, "digits-int8")),
                EngineOptions(Backend.GPU, 1),
                engines = jvmEngines(),
            )
        }
        assertEquals(EngineFailure.UNAVAILABLE, refused.kind)
        withModel { assertTrue(threads().isNotEmpty()) }
        assertNoThreads()
    }

    @Test
    fun `loading that is cancelled leaves nothing open`() {
        val engines = CountedEngines()
        runBlocking {
            val opening = launch(Dispatchers.Default, CoroutineStart.LAZY) {
                KerasVit.open(FolderFiles(File(MODELS, "digits-int8")), engines = engines)
            }
            engines.whenMade = { opening.cancel() }
            opening.start()
            opening.join()
            assertTrue(opening.isCancelled)
        }
        assertNoThreads()
        assertEquals(0 to 1, engines.open.get() to engines.most.get())
    }

    @Test
    fun `the app's assets hold bundles`() {
        val assets = RuntimeEnvironment.getApplication().assets
        KerasVit.openBlocking(assets, "cifar10-int8").use {
            val file = "bundles/cifar10-int8/samples/moose.jpg"
            val moose = assets.open(file).use(BitmapFactory::decodeStream)
            assertEquals("deer", it.classifyBlocking(moose).first().label)
            assertEquals(130, it.engine.delegated)
        }
        val absent = assertFailsWith<BundleException> { KerasVit.openBlocking(assets, "flowers") }
        assertEquals(BundleProblem.Missing("model.json"), absent.problem)
    }

    @Test
    fun `a model that an app compresses in its assets is copied`() {
        val assets = mock(AssetManager::class.java) // Robolectric's compress nothing.
        `when`(assets.openFd("bundles/a/model.tflite")).thenThrow(FileNotFoundException())
        `when`(assets.open("bundles/a/model.tflite")).thenReturn(byteArrayOf(1, 2, 3).inputStream())
        val model = AssetFiles(assets, "a").map("model.tflite")
        assertTrue(model.isDirect)
        assertEquals(listOf<Byte>(1, 2, 3), List(model.remaining()) { model[it] })
    }

    @Test
    fun `an app's engines keep what a GPU compiles in the app's code cache`() {
        val context = RuntimeEnvironment.getApplication()
        val engines = liteRtEngines(context)
        assertEquals(Backend.values().toList(), engines.backends)
        assertEquals("LiteRT 2.3.0", engines.runtime)
        assertEquals(listOf("litert"), context.codeCacheDir.list().orEmpty().toList())
        KerasVit.openBlocking(AssetFiles(context.assets, "cifar10-int8"), engines = engines).close()
    }

    private fun open(name: String): KerasVit =
        KerasVit.openBlocking(FolderFiles(File(MODELS, name)), engines = jvmEngines())

    private fun withModel(test: (KerasVit) -> Unit) = open("digits-float16").use(test)

    private fun assertNoThreads() {
        val end = System.nanoTime() + 60_000_000_000
        while (threads().isNotEmpty() && System.nanoTime() < end) Thread.sleep(10)
        assertEquals(emptyList(), threads())
    }

    private fun threads(): List<String> =
        Thread.getAllStackTraces().keys.map { it.name }.filter { it.startsWith("keras_vit ") }

    private fun uri(bitmap: Bitmap): Uri {
        val encoded = ByteArrayOutputStream()
        bitmap.compress(Bitmap.CompressFormat.PNG, 100, encoded)
        return uri(encoded.toByteArray())
    }

    private fun uri(bytes: ByteArray): Uri {
        val uri = Uri.parse("content://pictures/${bytes.contentHashCode()}")
        shadowOf(resolver).registerInputStreamSupplier(uri) { bytes.inputStream() }
        return uri
    }
}

private fun bitmap(image: RgbImage): Bitmap {
    val argb = IntArray(image.width * image.height) {
        0xFF shl 24 or image.level(it % image.width, it / image.width) * 0x010101
    }
    return Bitmap.createBitmap(argb, image.width, image.height, Bitmap.Config.ARGB_8888)
}

private fun rgb(image: RgbImage): ByteBuffer {
    val buffer = ByteBuffer.allocateDirect(image.bytes.size + 1)
    buffer.position(1)
    buffer.put(image.bytes)
    buffer.position(1)
    return buffer
}

private fun RgbImage.level(x: Int, y: Int): Int = bytes[(y * width + x) * 3].toInt() and 0xFF

/** A frame of CameraX, turned by 180 degrees, of which the picture is a part. */
private fun proxy(image: RgbImage): ImageProxy {
    val frame = cameraFrame(12, 10) { x, y ->
        if (x in 3..10 && y in 1..8) image.level(10 - x, 8 - y) else 255
    }
    val planes = frame.planes.map { plane ->
        // These are mocks, too: no calls of theirs inside of the others.
        val (row, pixel, bytes) = Triple(plane.rowStride, plane.pixelStride, plane.buffer)
        mock(ImageProxy.PlaneProxy::class.java).also {
            `when`(it.rowStride).thenReturn(row)
            `when`(it.pixelStride).thenReturn(pixel)
            `when`(it.buffer).thenReturn(bytes)
        }
    }
    val info = mock(ImageInfo::class.java)
    `when`(info.rotationDegrees).thenReturn(180)
    return mock(ImageProxy::class.java).also {
        `when`(it.format).thenReturn(ImageFormat.YUV_420_888)
        `when`(it.width).thenReturn(12)
        `when`(it.height).thenReturn(10)
        `when`(it.cropRect).thenReturn(Rect(3, 1, 11, 9))
        `when`(it.planes).thenReturn(planes.toTypedArray())
        `when`(it.imageInfo).thenReturn(info)
    }
}

private const val MODELS = "../testing/models"
private val SEGMENTER = File("src/main/assets/bundles/scenes-int8")
