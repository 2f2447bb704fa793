package dev.kerasvit.demo

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.provider.OpenableColumns
import dev.kerasvit.core.BundleProblem
import dev.kerasvit.demo.source.AddedBundles
import dev.kerasvit.demo.source.AddingException
import dev.kerasvit.demo.state.Dialog
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import java.io.File
import java.io.RandomAccessFile
import java.util.zip.ZipEntry
import java.util.zip.ZipOutputStream
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.fakes.RoboCursor

/** Models that come in zips: from the file picker, another app, a computer. */
@RunWith(RobolectricTestRunner::class)
class AddedModelsTest {
    @get:Rule
    val phone = Phone()

    @get:Rule
    val folder = TemporaryFolder()
    private val uri = Uri.parse("content://downloads/flowers.zip")

    @Test
    fun `a zip that is picked is used at once, with its samples, and after the app's end`() {
        copies.mkdirs()
        File(copies, "added1.zip").writeText("what is left of a process that ended")
        provide(zipped("flowers-int8"))
        phone.start()
        phone.send(Event.PickModel(rival = false))
        phone.tap(R.string.models_add)
        answerPicker(uri)
        assertShown("flowers-int8", label = "flower 4")
        assertEquals(10, thumbnails())
        phone.tap(phone.activity.getString(R.string.source_sample, "digit-7"))
        assertEquals(Source.Sample("digit-7.png"), phone.state.settings.source)
        phone.returnAfterEnd()
        assertShown("flowers-int8", label = "flower 9") // Of the 7, as Python says.
        assertEquals(emptyList(), zips())
    }

    @Test
    fun `what another app gives is added only if the user wants it`() {
        provide(zipped("flowers-int8"))
        for (intent in listOf(sending(uri), opening(uri))) {
            for (give in listOf(::startWith, ::giveToRunning)) {
                give(intent)
                assertEquals(Dialog.Offered("$uri"), phone.state.dialog)
                phone.tap(R.string.cancel)
                assertNull(phone.state.dialog)
                assertEquals(2, phone.state.models?.size)
            }
        }
        giveToRunning(sending(uri))
        phone.tap(R.string.zip_add)
        assertShown("flowers-int8", label = "flower 4")
    }

    @Test
    fun `only zips of content providers are taken`() {
        assertEquals(uri, sharedZip(sending(uri)))
        assertEquals(uri, sharedZip(opening(uri)))
        assertEquals(uri, sharedZip(opening(uri).setData(uri))) // which takes the type away
        for (other in listOf("file:///data/data/dev.kerasvit.demo/a.zip", "https://a.b/c.zip")) {
            assertNull(sharedZip(sending(Uri.parse(other))), other)
            assertNull(sharedZip(opening(Uri.parse(other))), other)
        }
        assertNull(sharedZip(opening(uri).setDataAndType(uri, "image/png")))
        assertNull(sharedZip(Intent(Intent.ACTION_MAIN)))
    }

    @Test
    fun `what a computer pushed is added when the app is shown`() {
        phone.start()
        val pushed = checkNotNull(phone.app.getExternalFilesDir("models"))
        val zip = zipped("flowers-int8").copyTo(File(pushed, "flowers-int8.zip"))
        val half = File(pushed, "other.zip.part").apply { writeText("half") }
        phone.controller.pause().resume()
        phone.settle()
        assertShown("flowers-int8", label = "flower 4")
        assertFalse(zip.exists())
        assertTrue(half.exists())
    }

    @Test
    fun `a bad zip that a computer pushed is told once, also before a good one`() {
        phone.start()
        val pushed = checkNotNull(phone.app.getExternalFilesDir("models"))
        File(pushed, "bad.zip").writeText("no zip")
        zipped("flowers-int8").copyTo(File(pushed, "flowers-int8.zip"))
        phone.controller.pause().resume()
        phone.settle()
        assertTrue(phone.shows(R.string.problem_zip_body, "bad.zip"))
        phone.tap(R.string.ok)
        assertShown("flowers-int8", label = "flower 4")
        assertEquals(emptyList(), pushed.list()?.toList())
    }

    @Test
    @Config(sdk = [26])
    fun `where other apps can push, too, a pushed zip is added only if the user wants it`() {
        phone.start()
        val pushed = checkNotNull(phone.app.getExternalFilesDir("models"))
        val zip = File(pushed, "flowers-int8.zip")
        for (answer in listOf(R.string.cancel, R.string.zip_add)) {
            zipped("flowers-int8").copyTo(zip)
            phone.controller.pause().resume()
            phone.settle()
            assertEquals(Dialog.OfferedPushed(listOf(zip.name)), phone.state.dialog)
            assertTrue(phone.shows(zip.name))
            assertEquals(2, phone.state.models?.size)
            phone.tap(answer)
            assertFalse(zip.exists())
        }
        assertShown("flowers-int8", label = "flower 4")
    }

    @Test
    fun `an app that does not give its zip is not waited for any longer than the user wants`() {
        val stalled = StalledStream()
        shadowOf(phone.app.contentResolver).registerInputStream(uri, stalled)
        phone.start()
        phone.app.store(null).send(Event.AddZip("$uri"))
        stalled.asked.await()
        phone.draw()
        assertTrue(phone.shows(R.string.zip_copying))
        phone.tap(R.string.cancel)
        assertNull(phone.state.dialog)
        assertEquals(2, phone.state.models?.size)
        phone.send(Event.ChooseSource(Source.Sample("digit-7.png")))
        assertIs<Result.Answer>(phone.state.result)
        assertEquals(emptyList(), zips())
        stalled.end()
        phone.settle()
        assertNull(phone.state.dialog)
    }

    @Test
    fun `a zip without an end is too large`() {
        provide(zipped("flowers-int8"))
        val resolver = phone.app.contentResolver
        val models = AddedBundles(folder.root, phone.app.cacheDir, resolver, { null }, 100)
        val error = assertFailsWith<AddingException> { models.copy(uri) { true } }
        assertTrue("larger than 100 bytes" in "${error.problem}")
        assertEquals(emptyList(), zips())
    }

    @Test
    fun `a model that has no folder in its zip is called as the other app calls the zip`() {
        val uri = Uri.parse("content://downloads/17")
        val zip = zipped("")
        val resolver = shadowOf(phone.app.contentResolver)
        resolver.registerInputStreamSupplier(uri) { zip.inputStream() }
        val names = RoboCursor().apply {
            setColumnNames(listOf(OpenableColumns.DISPLAY_NAME))
            setResults(arrayOf(arrayOf("my flowers.zip")))
        }
        resolver.setCursor(uri, names)
        phone.start()
        phone.send(Event.AddZip("$uri"))
        assertShown("my-flowers", label = "flower 4")
    }

    @Test
    fun `a zip that cannot be used is told, and nothing is changed`() {
        phone.start()
        val before = phone.state
        provide(zipped("flowers-int8", without = "golden.json"))
        phone.send(Event.AddZip("$uri"))
        assertTrue(phone.shows(R.string.problem_missing))
        assertTrue(phone.shows("flowers.zip"))
        phone.tap(R.string.ok)
        assertEquals(before, phone.state)
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(uri) { throw SecurityException("no longer allowed") }
        phone.send(Event.AddZip("$uri"))
        assertTrue(phone.shows(R.string.problem_zip))
        assertTrue(phone.shows("no longer allowed"))
    }

    @Test
    fun `a model can be removed again, and the app's own one is back`() {
        provide(zipped("digits-float16"))
        phone.start()
        phone.send(Event.AddZip("$uri"))
        assertShown("digits-float16", label = "flower 4")
        phone.send(Event.PickModel(rival = false))
        val remove = phone.activity.getString(R.string.model_remove, "digits-float16")
        assertFalse(phone.shows(R.string.model_remove, "digits-int8"))
        phone.tap(remove)
        phone.tap(R.string.cancel)
        assertTrue(phone.shows(remove))
        phone.tap(remove)
        phone.tap(R.string.model_remove_yes)
        assertFalse(phone.shows(remove))
        phone.send(Event.Show(Screen.CLASSIFY))
        assertShown("digits-float16", label = "4")
        assertEquals(10, thumbnails())
    }

    @Test
    fun `the app's own model is checked anew where an added one of its name was`() {
        val models = folder.newFolder()
        val model = File(copyOfBundle(models, "digits-float16"), "model.tflite")
        phone.app.testBundles = FolderBundles(models)
        provide(zipped("digits-float16"))
        phone.start()
        phone.send(Event.AddZip("$uri"))
        assertShown("digits-float16", label = "flower 4")
        RandomAccessFile(model, "rw").use {
            it.seek(model.length() / 2)
            it.writeLong(0x0123456789abcdef)
        }
        phone.send(Event.Remove("digits-float16"))
        val failed = assertIs<Result.Failed>(phone.state.result)
        val problem = assertIs<Problem.BadBundle>(failed.problem).problem
        assertIs<BundleProblem.WrongHash>(problem)
    }

    @Test
    fun `a newer zip of the model in use replaces it`() {
        provide(zipped("flowers-int8"))
        phone.start()
        phone.send(Event.AddZip("$uri"))
        provide(zipped("flowers-int8", label = "plant", without = "digit-0.png"))
        phone.send(Event.AddZip("$uri"))
        assertShown("flowers-int8", label = "plant 4")
        assertEquals(3, phone.state.models?.size)
        assertEquals(9, thumbnails())
        phone.send(Event.Remove("digits-float16")) // No other model loses what was decoded.
        assertEquals(9, thumbnails())
    }

    @Test
    fun `where there is no model, one can be added`() {
        phone.app.testBundles = FolderBundles(folder.newFolder())
        provide(zipped("flowers-int8"))
        phone.start()
        phone.tap(R.string.models_add)
        answerPicker(uri)
        assertShown("flowers-int8", label = "flower 4")
    }

    private fun assertShown(model: String, label: String) {
        assertNull(phone.state.dialog)
        assertEquals(model, phone.state.settings.model)
        val answer = assertIs<Result.Answer>(phone.state.result)
        assertEquals(model to label, answer.model to answer.rows[0].label)
        assertTrue(phone.shows(label))
    }

    private val copies = File(phone.app.cacheDir, "zips")

    private fun zips() = copies.list().orEmpty().toList()

    private fun thumbnails() =
        checkNotNull(phone.state.pictured).samples.count { it.thumbnail != null }

    private fun provide(zip: File) = shadowOf(phone.app.contentResolver)
        .registerInputStreamSupplier(uri) { zip.inputStream() }

    private fun answerPicker(uri: Uri) {
        val asked = shadowOf(phone.activity).nextStartedActivityForResult.intent
        assertEquals(Intent.ACTION_OPEN_DOCUMENT, asked.action)
        shadowOf(phone.activity).receiveResult(asked, Activity.RESULT_OK, Intent().setData(uri))
        phone.settle()
    }

    private fun sending(uri: Uri) =
        Intent(Intent.ACTION_SEND).setType("application/zip").putExtra(Intent.EXTRA_STREAM, uri)

    private fun opening(uri: Uri) =
        Intent(Intent.ACTION_VIEW).setDataAndType(uri, "application/zip")

    private fun startWith(intent: Intent) {
        phone.start(intent = intent)
    }

    private fun giveToRunning(intent: Intent) {
        phone.controller.newIntent(intent)
        phone.settle()
    }

    /** The model of digits in a folder [name], or at the top; with labels such as "flower 4". */
    private fun zipped(name: String, label: String = "flower", without: String? = null): File {
        val bundle = File("../testing/models/digits-int8")
        val zip = folder.newFile()
        ZipOutputStream(zip.outputStream()).use { out ->
            for (file in bundle.walk().filter { it.isFile && it.name != without }) {
                val place = File(name, file.relativeTo(bundle).path).invariantSeparatorsPath
                out.putNextEntry(ZipEntry(place.removePrefix("/")))
                if (file.name != "labels.txt") out.write(file.readBytes())
                else for (line in file.readLines()) out.write("$label $line\n".toByteArray())
            }
        }
        return zip
    }
}
