package dev.kerasvit.demo

import android.Manifest
import android.content.Context
import android.content.pm.PackageManager
import android.hardware.camera2.CameraCharacteristics
import android.os.Bundle
import android.provider.MediaStore
import android.view.View
import dev.kerasvit.core.Backend
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.shadows.ShadowCameraCharacteristics

@RunWith(RobolectricTestRunner::class)
class ClassifyTest {
    private val phone = Phone()

    @Test
    fun `starts with the first model and the first sample, and names a class`() {
        phone.start()
        assertEquals("digits-float16", phone.state.settings.model)
        assertEquals(Source.Sample("digit-0.png"), phone.state.settings.source)
        assertTrue(phone.shows(answer().rows[0].label))
        assertTrue(phone.shows(R.string.run_title))
    }

    /** What Python's LiteRT gives for these pictures; it takes the held-out 7 for a 9, too. */
    @Test
    fun `gives each sample the class and the probability that Python gives`() {
        phone.start()
        for ((digit, expected) in PYTHON.withIndex()) {
            tapSample(digit)
            val best = answer().rows[0]
            assertEquals(if (digit == 7) "9" else digit.toString(), best.label)
            assertEquals(expected, best.probability, 1e-4, "digit $digit")
        }
    }

    @Test
    fun `another backend and other threads are used, as chosen`() {
        phone.start()
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
        send(Event.ChooseThreshold(percent + 1))
        assertTrue(phone.shows(R.string.result_unsure))
        send(Event.ChooseThreshold(0))
        assertFalse(phone.shows(R.string.result_unsure))
    }

    @Test
    fun `rotation keeps the choice and computes nothing again`() {
        phone.start()
        tapSample(7)
        phone.tap(R.string.backend_cpu_plain)
        val before = phone.state
        RuntimeEnvironment.setQualifiers("+land")
        phone.controller.configurationChange()
        phone.settle()
        assertEquals(before, phone.state)
        assertTrue(phone.shows(answer().rows[0].label))
    }

    @Test
    fun `after the end of the process the same choice is computed again`() {
        phone.start()
        tapSample(3)
        phone.tap(R.string.backend_cpu_plain)
        send(Event.ChooseThreshold(20))
        val expected = phone.state.settings
        val saved = Bundle()
        phone.controller.pause().stop().saveInstanceState(saved).destroy()
        phone.app.endProcess()
        phone.start(saved)
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
        answerPermission(granted = false, mayAsk = false)
        assertTrue(phone.shows(R.string.problem_permission_for_ever_body))
        phone.tap(R.string.action_settings)
        val intent = shadowOf(phone.activity).nextStartedActivity
        assertEquals(android.provider.Settings.ACTION_APPLICATION_DETAILS_SETTINGS, intent.action)
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
        assertIs<Source.Sample>(phone.state.settings.source)
    }

    @Test
    fun `back leads to the first screen and then out of the app`() {
        phone.start()
        phone.tap(R.string.screen_labels)
        assertEquals(Screen.LABELS, phone.state.settings.screen)
        @Suppress("DEPRECATION")
        phone.activity.onBackPressed()
        phone.settle()
        assertEquals(Screen.CLASSIFY, phone.state.settings.screen)
        assertFalse(phone.activity.isFinishing)
    }

    @Test
    fun `what is announced is the class and not every number`() {
        phone.start()
        tapSample(7)
        val announced = phone.activity.findViewById<View>(R.id.answer_announcement)
        assertEquals(View.ACCESSIBILITY_LIVE_REGION_POLITE, announced.accessibilityLiveRegion)
        val spoken = announced.contentDescription.toString()
        assertTrue(spoken.startsWith(phone.state.announcement!!.label!!), spoken)
        // A live region also announces what changes in the views inside it.
        val live = generateSequence(phone.activity.findViewById<View>(R.id.answer_label)) {
            it.parent as? View
        }.filter { it.accessibilityLiveRegion != View.ACCESSIBILITY_LIVE_REGION_NONE }
        assertEquals(0, live.count())
    }

    private fun answer(): Result.Answer = assertIs<Result.Answer>(phone.state.result)

    private fun send(event: Event) {
        phone.app.store(null).send(event)
        phone.settle()
    }

    private fun tapSample(digit: Int) =
        phone.tap(phone.activity.getString(R.string.source_sample, "digit-$digit"))

    private fun addCamera() {
        val lens = ShadowCameraCharacteristics.newCameraCharacteristics()
        val back = CameraCharacteristics.LENS_FACING_BACK
        shadowOf(lens).set(CameraCharacteristics.LENS_FACING, back)
        val manager = phone.app.getSystemService(Context.CAMERA_SERVICE)
        shadowOf(manager as android.hardware.camera2.CameraManager).addCamera("0", lens)
    }

    private fun answerPermission(granted: Boolean, mayAsk: Boolean) {
        val name = Manifest.permission.CAMERA
        shadowOf(phone.app.packageManager).setShouldShowRequestPermissionRationale(name, mayAsk)
        val result =
            if (granted) PackageManager.PERMISSION_GRANTED else PackageManager.PERMISSION_DENIED
        phone.activity.onRequestPermissionsResult(1, arrayOf(name), intArrayOf(result))
        phone.settle()
    }
}

// Of digits-float16, computed with ai-edge-litert 2.3.0 on the PNGs of the assets.
private val PYTHON = listOf(
    0.991609, 0.989418, 0.984656, 0.976152, 0.994834,
    0.995773, 0.992925, 0.700867, 0.985678, 0.984144,
)
