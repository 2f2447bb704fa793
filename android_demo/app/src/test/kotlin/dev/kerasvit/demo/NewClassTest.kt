package dev.kerasvit.demo

import android.app.Activity
import android.content.ClipData
import android.content.Intent
import android.net.Uri
import android.provider.MediaStore
import androidx.compose.ui.semantics.SemanticsProperties
import dev.kerasvit.demo.source.AllBundles
import dev.kerasvit.demo.state.Dialog
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import java.io.ByteArrayInputStream
import java.io.File
import java.io.InputStream
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf

/** Classes that the user adds to a model of features, by a few pictures. */
@RunWith(RobolectricTestRunner::class)
class NewClassTest {
    @get:Rule
    val phone = Phone()

    @get:Rule
    val folder = TemporaryFolder()

    @Test
    fun `without a gallery a model learns classes, and knows them after the app's end`() {
        startWithoutGallery()
        addByHand("seven", "digit-7", "digit-9")
        waitFor("2 pictures added")
        assertEquals(listOf("seven"), labels())
        add("one", "digit-1")
        waitFor("1 picture added")
        phone.screenshot("classes_added")
        classify("digit-7")
        val answer = answer()
        assertEquals(listOf("seven", "one"), answer.rows.map { it.label })
        assertEquals(1.0, answer.rows.sumOf { it.probability }, 1e-9)
        val similar = checkNotNull(answer.similar)
        assertEquals("seven 1", similar[0].name)
        assertEquals(1.0, similar[0].similarity, 1e-5)
        assertTrue(similar.size == 3 && similar.all { it.thumbnail != null })
        phone.returnAfterEnd()
        assertEquals(answer.rows, answer().rows)
        assertEquals(mapOf("seven" to 2, "one" to 1), phone.state.model?.addedPictures)
    }

    @Test
    fun `a class is removed, and with the last one all that was added`() {
        startWithoutGallery()
        add("seven", "digit-7")
        add("one", "digit-1")
        phone.send(Event.Show(Screen.LABELS))
        for (name in listOf("seven", "one")) {
            waitFor(R.string.model_remove, name)
            phone.tap(phone.activity.getString(R.string.model_remove, name))
            assertEquals(Dialog.RemovingClass(name), phone.state.dialog)
            phone.tap(R.string.model_remove_yes)
            assertFalse(name in labels())
        }
        assertEquals(emptyList(), kept())
        phone.send(Event.Show(Screen.CLASSIFY))
        assertTrue(phone.shows(R.string.similar_none))
    }

    @Test
    fun `a class of the gallery gets more pictures, which alone can be removed`() {
        phone.withFeatures().start()
        add("7", "digit-9")
        add("bent", "digit-2")
        assertEquals(listOf("7" to 1, "bent" to 1), phone.state.model!!.addedPictures.toList())
        assertEquals((0..9).map { "$it" } + "bent", labels())
        classify("digit-9")
        assertEquals("7 1", checkNotNull(answer().similar)[0].name)
        classify("digit-2")
        assertEquals("bent", answer().rows[0].label)
        phone.send(Event.RemoveClass("7"))
        phone.send(Event.RemoveClass("bent"))
        assertEquals((0..9).map { "$it" }, labels())
        assertEquals(60, phone.state.model?.bundle?.gallery?.pictures?.size)
    }

    @Test
    fun `pictures that cannot be read are told, and the others added`() {
        startWithoutGallery()
        provide("torn") { ByteArrayInputStream(ByteArray(9)) }
        add("seven", "digit-7", "torn", "gone")
        assertEquals(Dialog.NotAdded(Problem.PicturesSkipped(2)), phone.state.dialog)
        assertTrue(phone.shows("2 pictures cannot be read"))
        phone.tap(R.string.ok)
        assertEquals(mapOf("seven" to 1), phone.state.model?.addedPictures)
        add("one", "torn")
        assertEquals(Dialog.NotAdded(Problem.PictureUnreadable), phone.state.dialog)
        assertEquals(listOf("seven"), labels())
    }

    @Test
    fun `a picture that does not come is not waited for any longer than the user wants`() {
        startWithoutGallery()
        val stalled = StalledStream()
        provide("digit-7")
        shadowOf(phone.app.contentResolver).registerInputStream(uri("slow"), stalled)
        val uris = listOf("digit-7", "slow").map { "${uri(it)}" }
        phone.app.store(null).send(Event.AddPictures("seven", uris))
        stalled.asked.await()
        phone.draw()
        assertEquals(Dialog.AddingPictures(1, 2), phone.state.dialog)
        phone.tap(R.string.cancel)
        assertNull(phone.state.dialog)
        assertEquals(emptyList(), labels())
        assertEquals(emptyList(), kept())
        classify("digit-7")
        stalled.end()
        phone.settle()
        assertNull(phone.state.dialog)
    }

    @Test
    fun `what is kept and damaged is ignored, and removed`() {
        startWithoutGallery()
        add("seven", "digit-7")
        val file = File(phone.app.filesDir, "classes").walk().single { it.name == "vectors.bin" }
        file.writeBytes(ByteArray(file.length().toInt()))
        phone.returnAfterEnd()
        assertTrue(phone.shows(R.string.similar_none))
        assertEquals(emptyList(), kept())
    }

    @Test
    fun `what was added goes with the model that the user removes`() {
        phone.app.testBundles = FolderBundles(folder.newFolder())
        phone.start()
        val models = File(phone.app.filesDir, "models/digits-features")
        File("../testing/features/digits-features").copyRecursively(models)
        phone.app.endProcess()
        phone.start()
        add("seven", "digit-7")
        assertEquals(1, kept().size)
        phone.send(Event.Remove("digits-features"))
        assertEquals(emptyList(), kept())
    }

    @Test
    fun `a class needs a name, and a classifier gets none`() {
        val features = FolderBundles(File("../testing/features"))
        phone.app.testBundles = AllBundles(FolderBundles(File("../testing/models")), features)
        phone.start()
        phone.send(Event.ChooseModel("digits-int8"))
        phone.send(Event.Show(Screen.LABELS))
        waitFor("10 classes")
        assertFalse(phone.shows(R.string.class_new))
        phone.send(Event.ChooseModel("digits-features"))
        phone.send(Event.Show(Screen.LABELS))
        waitFor(R.string.class_new)
        phone.tap(R.string.class_new)
        for ((name, isEnough) in listOf("" to false, "  " to false, " cup " to true)) {
            phone.write(name, R.string.class_name)
            val button = phone.activity.getString(R.string.class_choose_pictures)
            val node = phone.nodes().first { button in it.texts }
            val isDisabled = generateSequence(node) { it.parent }
                .any { SemanticsProperties.Disabled in it.config }
            assertEquals(isEnough, !isDisabled, name)
        }
        phone.screenshot("new_class_light")
        phone.tap(R.string.cancel)
        assertFalse(phone.shows(R.string.class_name))
    }

    private fun startWithoutGallery() {
        val models = folder.newFolder()
        File("../testing/features").copyRecursively(models, overwrite = true)
        File(models, "digits-features/gallery").deleteRecursively()
        phone.app.testBundles = FolderBundles(models)
        phone.start()
        assertTrue(phone.shows(R.string.similar_none))
    }

    /** As a user does it. */
    private fun addByHand(name: String, vararg samples: String) {
        for (sample in samples) provide(sample)
        phone.tap(R.string.screen_labels)
        waitFor(R.string.class_new)
        phone.tap(R.string.class_new)
        phone.write(" $name ", R.string.class_name)
        phone.tap(R.string.class_choose_pictures)
        assertFalse(phone.state.isNamingClass)
        val asked = shadowOf(phone.activity).nextStartedActivityForResult.intent
        assertEquals(MediaStore.ACTION_PICK_IMAGES, asked.action)
        assertTrue(asked.hasExtra(MediaStore.EXTRA_PICK_IMAGES_MAX))
        val clip = ClipData.newRawUri(null, uri(samples[0]))
        for (sample in samples.drop(1)) clip.addItem(ClipData.Item(uri(sample)))
        val chosen = Intent().apply { clipData = clip }
        shadowOf(phone.activity).receiveResult(asked, Activity.RESULT_OK, chosen)
        phone.settle()
        assertNull(phone.state.dialog)
    }

    // Classes are searched on another thread.
    private fun waitFor(id: Int, vararg values: Any) =
        waitFor(phone.activity.getString(id, *values))

    private fun waitFor(text: String) = phone.rule.waitUntil(60_000) { phone.shows(text) }

    private fun add(name: String, vararg samples: String) {
        for (sample in samples) if (sample.startsWith("digit")) provide(sample)
        phone.send(Event.AddPictures(name, samples.map { "${uri(it)}" }))
    }

    private fun provide(sample: String) = provide(sample) {
        File("../testing/features/digits-features/samples/$sample.png").inputStream()
    }

    private fun provide(name: String, open: () -> InputStream) =
        shadowOf(phone.app.contentResolver).registerInputStreamSupplier(uri(name), open)

    private fun uri(name: String): Uri = Uri.parse("content://photos/$name")

    private fun classify(sample: String) {
        phone.send(Event.Show(Screen.CLASSIFY))
        phone.tap(phone.activity.getString(R.string.source_sample, sample))
    }

    private fun labels(): List<String> = assertNotNull(phone.state.model?.bundle).labels

    private fun kept() = File(phone.app.filesDir, "classes").list().orEmpty().toList()

    private fun answer(): Result.Answer = assertIs<Result.Answer>(phone.state.result)
}
