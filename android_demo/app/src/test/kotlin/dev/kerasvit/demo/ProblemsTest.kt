package dev.kerasvit.demo

import dev.kerasvit.core.BundleFiles
import dev.kerasvit.demo.screen.Wording
import dev.kerasvit.demo.screen.problem
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import java.io.File
import java.nio.ByteBuffer
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowToast

/** Each way to fail is a message on the screen. */
@RunWith(RobolectricTestRunner::class)
class ProblemsTest {
    @get:Rule
    val folder = TemporaryFolder()
    @get:Rule
    val phone = Phone()

    private fun startWithDamaged(damage: (File) -> Unit) {
        damage(copyOfBundle(folder.root))
        phone.app.testBundles = FolderBundles(folder.root)
        phone.start()
    }

    @Test
    fun `a bundle without labels is incomplete`() {
        startWithDamaged { File(it, "labels.txt").delete() }
        assertTrue(phone.shows(R.string.problem_missing))
        assertTrue(phone.shows("labels.txt"))
    }

    @Test
    fun `a cut model json is a damaged model`() {
        startWithDamaged { File(it, "model.json").run { writeText(readText().take(100)) } }
        assertTrue(phone.shows(R.string.problem_corrupt))
        assertTrue(phone.shows("model.json"))
        phone.screenshot("problem_corrupt")
    }

    @Test
    fun `a changed model is not the one described`() {
        startWithDamaged { changeWeight(File(it, "model.tflite")) }
        assertTrue(phone.shows(R.string.problem_hash))
        val expected = Regex("\"sha256\": \"(\\w+)\"")
            .find(File(folder.root, "digits-int8/model.json").readText())!!.groupValues[1]
        assertTrue(phone.shows(expected))
        phone.screenshot("problem_hash")
    }

    @Test
    fun `a model is hashed once, not whenever it is loaded`() {
        phone.app.testBundles = FolderBundles(folder.root)
        val model = File(copyOfBundle(folder.root), "model.tflite")
        phone.start()
        changeWeight(model)
        phone.send(Event.ChooseThreads(2))
        assertEquals(2, assertIs<Result.Answer>(phone.state.result).info.threads)
    }

    private fun changeWeight(model: File) {
        val bytes = model.readBytes()
        bytes[bytes.size / 2] = (bytes[bytes.size / 2] + 1).toByte()
        model.writeBytes(bytes)
    }

    @Test
    fun `a newer format needs a newer app`() {
        startWithDamaged {
            val json = File(it, "model.json")
            json.writeText(json.readText().replace("\"format\": 1", "\"format\": 2"))
        }
        assertTrue(phone.shows(R.string.problem_newer))
        phone.screenshot("problem_newer")
    }

    @Test
    fun `an app without models says how to add one`() {
        phone.app.testBundles = FolderBundles(folder.root)
        phone.start()
        assertTrue(phone.shows(R.string.problem_no_models))
    }

    @Test
    fun `another model can be chosen after a damaged one`() {
        copyOfBundle(folder.root, "digits-int8")
        File(copyOfBundle(folder.root, "digits-float16"), "model.json").writeText("{")
        phone.app.testBundles = FolderBundles(folder.root)
        phone.start()
        assertTrue(phone.shows(R.string.problem_corrupt))
        phone.tap(R.string.action_model)
        phone.tap("digits-int8")
        assertFalse(phone.shows(R.string.problem_corrupt))
        assertTrue(phone.shows(R.string.run_title))
    }

    @Test
    fun `beside a damaged model, the other one of a comparison shows its result`() {
        for (damaged in listOf("digits-float16", "digits-int8")) {
            val models = folder.newFolder()
            copyOfBundle(models, "digits-int8")
            copyOfBundle(models, "digits-float16")
            File(models, "$damaged/model.json").writeText("{")
            phone.app.endProcess()
            phone.app.testBundles = FolderBundles(models)
            phone.start()
            phone.tap(R.string.screen_compare)
            val isFirst = damaged == "digits-float16"
            val sound = if (isFirst) phone.state.shownRivalResult else phone.state.shownResult
            assertEquals("4", assertIs<Result.Answer>(sound, damaged).rows[0].label)
            assertTrue(phone.shows(R.string.problem_corrupt), damaged)
            if (isFirst) phone.screenshot("problem_compare")
            phone.tap(R.string.action_model)
            assertEquals(!isFirst, phone.state.settings.pickingRival, damaged)
            phone.leave()
        }
    }

    @Test
    fun `two damaged models of a comparison both say so`() {
        for (name in listOf("digits-int8", "digits-float16")) {
            File(copyOfBundle(folder.root, name), "model.json").writeText("{")
        }
        phone.app.testBundles = FolderBundles(folder.root)
        phone.start()
        phone.tap(R.string.screen_compare)
        val corrupt = phone.activity.getString(R.string.problem_corrupt)
        assertEquals(2, phone.texts().count { it == corrupt })
    }

    @Test
    fun `a backend that refuses says why, and no other one runs in its place`() {
        val reason = "Internal error: failed to delegate BATCH_MATMUL node #103"
        refuse(Backend.GPU, EngineFailure.REFUSED, reason)
        phone.start()
        phone.send(Event.ChooseBackend(Backend.GPU))
        assertTrue(phone.shows(R.string.problem_refused, "GPU"))
        assertTrue(phone.shows(reason))
        assertFalse(phone.shows(R.string.run_title))
        phone.screenshot("problem_refused")
        phone.tap(R.string.action_backend)
        phone.tap(R.string.backend_cpu)
        assertFalse(phone.shows(reason))
        assertTrue(phone.shows(R.string.run_title))
    }

    @Test
    fun `an NPU that refuses, and the settings, name the precisions for it`() {
        refuse(Backend.NPU, EngineFailure.REFUSED, "3 of 157 operators")
        phone.start()
        phone.send(Event.ChooseBackend(Backend.NPU))
        assertTrue(phone.shows("int16x8"))
        phone.tap(R.string.action_backend)
        phone.tap(R.string.backend_gpu)
        assertTrue(phone.shows("int16x8"))
        phone.send(Event.ShowSettings(false))
        assertFalse(phone.shows("int16x8"))
    }

    @Test
    fun `a model that needs a newer runtime is refused, and the screen names both runtimes`() {
        phone.app.testBundles = FolderBundles(File("src/test/resources/fixtures/bundles"))
        refuse(Backend.CPU, EngineFailure.TOO_OLD, "'FULLY_CONNECTED' version '12'")
        phone.start()
        assertTrue(phone.shows(R.string.problem_too_old))
        val body = R.string.problem_too_old_body
        assertTrue(phone.shows(body, "2.17.0", jvmEngines().runtime), "${phone.texts()}")
        phone.screenshot("problem_too_old")
    }

    @Test
    fun `too little memory for a model is a message`() {
        refuse(Backend.CPU, EngineFailure.OUT_OF_MEMORY, "java.lang.OutOfMemoryError")
        phone.start()
        assertTrue(phone.shows(R.string.problem_memory))
    }

    @Test
    fun `too little memory to read a model is a message, and trying again helps`() {
        val troubled = TroubledBundles("digits-float16") { throw OutOfMemoryError() }
        phone.app.testBundles = troubled
        phone.start()
        assertTrue(phone.shows(R.string.problem_memory))
        assertNotNull(phone.state.rival?.bundle, "the other model")
        phone.screenshot("problem_memory")
        troubled.isTroubled = false
        phone.tap(R.string.action_retry)
        assertFalse(phone.shows(R.string.problem_memory))
        assertTrue(phone.shows(R.string.run_title))
    }

    @Test
    fun `a surprise while a model is read is a message of this model`() {
        val troubled = TroubledBundles("digits-float16") { error("a surprise") }
        phone.app.testBundles = troubled
        phone.start()
        assertTrue(phone.shows("a surprise"))
        assertNotNull(phone.state.rival?.bundle, "the other model")
        phone.tap("digits-float16")
        assertTrue(phone.shows(R.string.model_broken))
        assertFalse(phone.shows(R.string.model_reading))
    }

    private class TroubledBundles(private val troubled: String, private val fail: () -> Nothing) :
        Bundles {
        @Volatile
        var isTroubled = true
        private val real = FolderBundles(File("../testing/models"))

        override fun names() = real.names()

        override fun files(name: String) = object : BundleFiles by real.files(name) {
            override fun map(file: String): ByteBuffer =
                if (isTroubled && name == troubled) fail() else real.files(name).map(file)
        }
    }

    @Test
    fun `a picture that is there again can be chosen again`() {
        val file = File(folder.root, "picture.png")
        phone.start()
        choose(file)
        assertTrue(phone.shows(R.string.problem_gone))
        File("../testing/models/digits-int8/samples/digit-7.png").copyTo(file)
        choose(file)
        assertFalse(phone.shows(R.string.problem_gone))
        assertTrue(phone.shows(R.string.run_title))
    }

    @Test
    fun `system settings that cannot be opened are a message`() {
        phone.start()
        shadowOf(phone.app).checkActivities(true)
        phone.activity.openAppSettings()
        assertNotNull(ShadowToast.getTextOfLatestToast())
    }

    @Test
    fun `a file that is no picture is a message`() {
        val file = folder.newFile("picture.jpg").apply { writeText("not a picture") }
        phone.start()
        choose(file)
        assertTrue(phone.shows(R.string.problem_unreadable))
        phone.screenshot("problem_picture")
    }

    @Test
    fun `a cut picture is a message`() {
        val whole = File("../testing/models/digits-int8/samples/digit-7.png").readBytes()
        val file = folder.newFile("picture.png").apply { writeBytes(whole.copyOf(30)) }
        phone.start()
        choose(file)
        assertTrue(phone.shows(R.string.problem_unreadable))
    }

    @Test
    fun `a deleted picture is a message, and a sample helps`() {
        phone.start()
        choose(File(folder.root, "gone.jpg"))
        assertTrue(phone.shows(R.string.problem_gone))
        phone.tap(phone.activity.getString(R.string.source_sample, "digit-7"))
        assertFalse(phone.shows(R.string.problem_gone))
        assertTrue(phone.shows(R.string.run_title))
    }

    @Test
    fun `a device without a camera is a message`() {
        phone.start()
        phone.tap(R.string.source_camera)
        assertTrue(phone.shows(R.string.problem_no_camera))
        phone.screenshot("problem_no_camera")
        assertEquals(emptyList(), phone.state.cameras)
    }

    @Test
    fun `every problem has words`() {
        val wording = Wording(phone.app.resources)
        for (problem in allProblems) {
            val text = wording.problem(problem)
            assertTrue(text.title.isNotBlank() && text.body.isNotBlank(), "$problem")
        }
    }

    private fun refuse(backend: Backend, kind: EngineFailure, reason: String) {
        phone.app.testEngines = RefusingEngines(backend, kind, reason)
    }

    private fun choose(file: File) {
        phone.send(Event.ChooseSource(Source.Picture("file://${file.path}")))
    }
}
