package dev.kerasvit.demo

import android.Manifest
import android.content.pm.PackageManager
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraManager
import android.provider.MediaStore
import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.test.onNodeWithContentDescription
import androidx.compose.ui.test.performSemanticsAction
import dev.kerasvit.demo.source.BitmapPreview
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend
import java.io.File
import kotlin.io.path.createTempDirectory
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.json.JSONObject
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.util.ReflectionHelpers

@RunWith(RobolectricTestRunner::class)
class ClassifyTest {
    @get:Rule
    val phone = Phone()

    @Test
    fun `starts with the first model and the picture that it brings along`() {
        phone.start()
        assertEquals("digits-float16", phone.state.settings.model)
        assertEquals(Source.Golden, phone.state.settings.source)
        assertEquals("4", answer().rows[0].label)
        assertTrue(phone.shows(answer().rows[0].label))
        assertTrue(phone.shows(R.string.run_title))
    }

    /** What Python's LiteRT gives for these photographs, some of them wrongly, too. */
    @Test
    fun `gives each sample the classes and the probabilities that Python gives`() {
        phone.withAppModels().start()
        givesWhatPythonGives("app/src/main/assets/bundles/cifar10-float16", samples = 7)
    }

    @Test
    fun `gives each sample the labels of a list of words that Python gives`() {
        phone.withWords().start()
        givesWhatPythonGives("testing/words/cifar10-words", samples = 10)
        phone.tap(phone.activity.getString(R.string.source_sample, "cat"))
        assertTrue(answer().rows.sumOf { it.probability } > 1)
        phone.screenshot("classify_words")
        assertTrue(phone.shows(R.string.model_independent))
    }

    private fun givesWhatPythonGives(bundle: String, samples: Int) {
        assertEquals(File(bundle).name, phone.state.settings.model)
        val python = pythonsAnswers().getJSONObject(bundle)
        assertEquals(samples, python.length())
        for (sample in python.keys()) {
            phone.tap(phone.activity.getString(R.string.source_sample, sample.substringBefore('.')))
            val best = python.getJSONArray(sample)
            assertEquals(3, best.length())
            for (place in 0 until best.length()) {
                val row = answer().rows[place]
                val expected = best.getJSONObject(place)
                assertEquals(expected.getString("label"), row.label, "$sample, $place")
                assertEquals(expected.getDouble("probability"), row.probability, 1e-4, sample)
            }
        }
    }

    @Test
    fun `another backend and other threads are used, as chosen`() {
        phone.start()
        tapSample(0)
        phone.tap(R.string.settings_title)
        phone.tap(R.string.backend_cpu_plain)
        phone.tap("4")
        assertEquals(Backend.CPU_PLAIN, answer().info.backend)
        assertEquals(4, answer().info.threads)
    }

    @Test
    fun `times are medians over repeated runs without the warm-up`() {
        phone.start()
        val times = answer().times
        assertTrue(times.count in 1..20)
        for (time in listOf(times.preprocessing, times.inference, times.reading)) {
            assertTrue(time.median > 0)
            assertTrue(time.p90 >= time.median)
        }
    }

    @Test
    fun `below the threshold no class is named`() {
        phone.start()
        val percent = (answer().rows[0].probability * 100).toInt()
        phone.send(Event.ChooseThreshold(percent + 1))
        assertTrue(phone.shows(R.string.result_unsure))
        phone.send(Event.ChooseThreshold(0))
        assertFalse(phone.shows(R.string.result_unsure))
    }

    @Test
    fun `the threshold is chosen with a slider, in steps of five percent`() {
        phone.start()
        phone.tap(R.string.settings_title)
        val name = phone.activity.getString(R.string.setting_threshold_label)
        val slider = phone.rule.onNodeWithContentDescription(name)
        slider.performSemanticsAction(SemanticsActions.SetProgress) { it(61f) }
        phone.settle()
        assertEquals(60, phone.state.settings.threshold)
        // TalkBack reads the place as a percentage of the range.
        val range = slider.fetchSemanticsNode().config[SemanticsProperties.ProgressBarRangeInfo]
        assertEquals(60f, range.current, 0.01f)
        assertEquals(0f..100f, range.range)
        assertEquals(19, range.steps) // Between both ends.
    }

    @Test
    fun `rotation keeps the choice and computes nothing again`() {
        phone.start()
        tapSample(7)
        phone.send(Event.ChooseBackend(Backend.CPU_PLAIN))
        val before = phone.state
        RuntimeEnvironment.setQualifiers("+land")
        phone.recreate()
        assertEquals(before, phone.state)
        assertTrue(phone.shows(answer().rows[0].label))
    }

    @Test
    fun `after the end of the process the same choice is computed again`() {
        phone.start()
        tapSample(3)
        phone.send(Event.ChooseBackend(Backend.CPU_PLAIN))
        phone.send(Event.ChooseThreshold(20))
        val expected = phone.state.settings
        phone.returnAfterEnd()
        assertEquals(expected, phone.state.settings)
        assertEquals(Backend.CPU_PLAIN, answer().info.backend)
        assertTrue(phone.shows("3"))
    }

    @Test
    fun `permission refused once can be asked for again`() {
        addCamera()
        phone.start()
        phone.tap(R.string.source_camera)
        answerPermission(granted = false, mayAsk = true)
        assertTrue(phone.shows(R.string.problem_permission_body))
        assertTrue(phone.shows(R.string.action_allow))
    }

    @Test
    fun `permission refused for ever leads to the settings`() {
        addCamera()
        phone.start()
        phone.tap(R.string.source_camera)
        answerPermission(granted = false, mayAsk = true)
        phone.tap(R.string.action_allow)
        answerPermission(granted = false, mayAsk = false)
        phone.controller.pause().resume()
        phone.settle()
        assertTrue(phone.shows(R.string.problem_permission_for_ever_body))
        phone.tap(R.string.action_settings)
        val intent = shadowOf(phone.activity).nextStartedActivity
        assertEquals(android.provider.Settings.ACTION_APPLICATION_DETAILS_SETTINGS, intent.action)
    }

    /** Android 11 and newer tell of this as of a refusal for ever. */
    @Test
    fun `a first question that was dismissed can be asked again`() {
        addCamera()
        phone.start()
        phone.tap(R.string.source_camera)
        answerPermission(granted = false, mayAsk = false)
        assertTrue(phone.shows(R.string.action_allow))
        phone.tap(R.string.action_allow)
        answerPermission(granted = false, mayAsk = false)
        assertTrue(phone.shows(R.string.problem_permission_for_ever_body))
    }

    @Test
    fun `a question for the permission that was interrupted can be asked again`() {
        addCamera()
        phone.start()
        phone.tap(R.string.source_camera)
        answerPermission(emptyArray(), IntArray(0))
        assertTrue(phone.shows(R.string.action_allow))
        phone.tap(R.string.action_allow)
        answerPermission(granted = false, mayAsk = false) // The first answer.
        assertTrue(phone.shows(R.string.action_allow))
    }

    @Test
    fun `the model's picture is another one for another model, and survives the process`() {
        phone.app.testBundles = FolderBundles(folderWithOtherGolden())
        phone.start()
        val first = (phone.state.preview as BitmapPreview).bitmap
        phone.send(Event.PickModel(rival = false))
        phone.send(Event.ChooseModel("other"))
        val second = (phone.state.preview as BitmapPreview).bitmap
        assertFalse(first.sameAs(second))
        phone.returnAfterEnd()
        assertEquals(Source.Golden, phone.state.settings.source)
        assertTrue(second.sameAs((phone.state.preview as BitmapPreview).bitmap))
    }

    @Test
    fun `permission given in the settings is noticed on return`() {
        addCamera()
        phone.start()
        phone.tap(R.string.source_camera)
        answerPermission(granted = false, mayAsk = false)
        shadowOf(phone.app).grantPermissions(Manifest.permission.CAMERA)
        phone.controller.pause().resume()
        phone.settle()
        assertFalse(phone.shows(R.string.problem_permission))
    }

    @Test
    fun `a photo is asked for without any permission`() {
        phone.start()
        phone.tap(R.string.source_picture)
        val intent = shadowOf(phone.activity).nextStartedActivityForResult.intent
        assertEquals(MediaStore.ACTION_PICK_IMAGES, intent.action)
        assertEquals(Source.Golden, phone.state.settings.source)
    }

    @Test
    fun `back leads to the first screen and then out of the app`() {
        phone.start()
        phone.tap(R.string.screen_labels)
        assertEquals(Screen.LABELS, phone.state.settings.screen)
        phone.goBack()
        assertEquals(Screen.CLASSIFY, phone.state.settings.screen)
        assertFalse(phone.activity.isFinishing)
        assertFalse(phone.activity.onBackPressedDispatcher.hasEnabledCallbacks())
    }

    @Test
    fun `what is announced is the class and not every number`() {
        phone.start()
        tapSample(7)
        val live = phone.nodes().filter { SemanticsProperties.LiveRegion in it.config }
        assertEquals(listOf(phone.state.announcement!!.label), live.single().texts.distinct())
        // Nothing inside a live region changes more often.
        assertEquals(emptyList(), live.single().children)
    }

    /** The app's int8 digits twice; the second one's golden picture has a lighter corner. */
    private fun folderWithOtherGolden(): File {
        val folder = createTempDirectory().toFile().apply { deleteOnExit() }
        copyOfBundle(folder).copyRecursively(File(folder, "other"))
        val golden = File(folder, "other/golden.json")
        val image = Regex("(\"shape\": \\[\\s*8,[^}]*?\"base64\": \")\\w{8}")
        val changed = image.replaceFirst(golden.readText(), "$1gICAgICA")
        check(changed != golden.readText()) { "there is no picture in $golden" }
        golden.writeText(changed)
        return folder
    }

    private fun answer(): Result.Answer = assertIs<Result.Answer>(phone.state.result)

    private fun tapSample(digit: Int) =
        phone.tap(phone.activity.getString(R.string.source_sample, "digit-$digit"))

    private fun addCamera() {
        val manager = phone.app.getSystemService(CameraManager::class.java)
        shadowOf(manager).addCamera("0", cameraOf(CameraCharacteristics.LENS_FACING_BACK))
    }

    private fun answerPermission(granted: Boolean, mayAsk: Boolean) {
        val name = Manifest.permission.CAMERA
        shadowOf(phone.app.packageManager).setShouldShowRequestPermissionRationale(name, mayAsk)
        val result =
            if (granted) PackageManager.PERMISSION_GRANTED else PackageManager.PERMISSION_DENIED
        answerPermission(arrayOf(name), intArrayOf(result))
    }

    private fun answerPermission(names: Array<String>, results: IntArray) {
        // As the system does before it calls the activity.
        ReflectionHelpers.setField(phone.activity, "mHasCurrentPermissionsRequest", false)
        val request = shadowOf(phone.activity).lastRequestedPermission.requestCode
        @Suppress("DEPRECATION")
        phone.activity.onRequestPermissionsResult(request, names, results)
        phone.settle()
    }
}

// `tests/test_android_fixtures.py` compares the same file with what `keras-vit run` prints.
private fun pythonsAnswers(): JSONObject {
    val file = checkNotNull(ClassifyTest::class.java.getResource("/fixtures/samples.json"))
    return JSONObject(file.readText())
}
