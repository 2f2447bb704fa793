package dev.kerasvit.demo

import android.Manifest
import android.graphics.Rect
import android.graphics.SurfaceTexture
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraManager
import android.hardware.display.DisplayManager
import android.os.Bundle
import android.os.Looper
import android.view.Display
import android.view.Surface
import android.view.TextureView
import androidx.compose.ui.test.onNodeWithContentDescription
import dev.kerasvit.core.ClassShare
import dev.kerasvit.core.Clock
import dev.kerasvit.core.Mask
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.classColours
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.FrameSize
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.jobOf
import dev.kerasvit.testing.LITERT_BYTES_PER_RUN
import dev.kerasvit.testing.allocatedBy
import java.io.File
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicLong
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertNotSame
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.After
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config
import org.robolectric.shadows.ShadowDisplayManager

/** The way of a camera's frames to the screen. */
@RunWith(RobolectricTestRunner::class)
@Config(
    shadows = [FakeImageReader::class, TroubledCameraManager::class, TroubledCamera::class],
)
class LiveCameraTest {
    @get:Rule
    val folder = TemporaryFolder()

    @get:Rule
    val phone = Phone()
    private val manager = phone.app.getSystemService(CameraManager::class.java)

    @After
    fun repair() = TroubledCameraManager.repair()

    @Test
    fun `what the camera sees is on the screen`() {
        val now = AtomicLong()
        phone.app.testClock = Clock { now.addAndGet(7_000_000) }
        startWithCamera()
        assertEquals(Source.Camera(Facing.BACK), phone.state.settings.source)
        assertEquals(FrameSize(480, 640), phone.state.frame)
        repeat(60) { sendToApp() }
        val answer = assertIs<Result.Answer>(phone.state.result)
        assertTrue(phone.shows(answer.rows[0].label))
        val reader = FakeImageReader.newest
        phone.screenshot("camera_light")
        val name = phone.activity.getString(R.string.camera_shown)
        val shown = phone.rule.onNodeWithContentDescription(name).fetchSemanticsNode()
        assertEquals(phone.activity.window.decorView.width, shown.size.width)
        phone.tap(R.string.camera_flip)
        assertEquals(Source.Camera(Facing.FRONT), phone.state.settings.source)
        assertTrue(reader.isClosed)
        assertFalse(FakeImageReader.newest.isClosed)
    }

    @Test
    fun `how fast it goes is shown, frames per second only of a camera`() {
        val now = AtomicLong()
        phone.app.testClock = Clock { now.get() }
        manager.addCameras()
        shadowOf(phone.app).grantPermissions(Manifest.permission.CAMERA)
        phone.start()
        assertTrue("0.00 ms" in phone.texts(), "${phone.texts()}")
        phone.tap(R.string.source_camera)
        surface()
        repeat(14) {
            now.addAndGet(100_000_000)
            sendToApp()
        }
        assertTrue("0.00 ms · 10 fps" in phone.texts(), "${phone.texts()}")
        phone.send(Event.Show(Screen.COMPARE))
        repeat(14) {
            now.addAndGet(100_000_000)
            sendToApp()
        }
        assertTrue("10 fps" in phone.texts(), "${phone.texts()}")
    }

    @Test
    fun `what the camera sees is compared with a gallery`() {
        phone.withFeatures()
        val now = AtomicLong()
        phone.app.testClock = Clock { now.addAndGet(7_000_000) }
        startWithCamera()
        repeat(60) { sendToApp() }
        val answer = assertIs<Result.Answer>(phone.state.result)
        assertEquals(5, answer.similar?.size)
        assertTrue(phone.shows(answer.rows[0].label))
        assertTrue(phone.shows("${answer.similar!![0].name}, "))
    }

    @Test
    fun `what the camera sees becomes the colours of its patches, all of which are seen`() {
        phone.withFeatureMaps()
        val now = AtomicLong()
        phone.app.testClock = Clock { now.addAndGet(7_000_000) }
        startWithCamera()
        sendToApp()
        val first = assertIs<Result.Answer>(phone.state.result).patches
        repeat(60) { sendToApp() }
        val patches = assertNotNull(assertIs<Result.Answer>(phone.state.result).patches)
        assertNotSame(first, patches)
        assertEquals(8 to 8, patches.colours.run { rows to columns })
        assertEquals(0.75f, patches.aspect)
        phone.screenshot("camera_feature_map")
        val name = phone.activity.getString(R.string.patches_shown, "8", "8")
        val shown = phone.rule.onNodeWithContentDescription(name).fetchSemanticsNode()
        assertEquals(shown.size.height.toFloat(), shown.boundsInRoot.height)
        assertEquals(shown.size.width, shown.size.height * 3 / 4)
    }

    @Test
    fun `a mask lies over what the camera sees, mirrored as a front camera's picture`() {
        phone.withAppModels()
        val now = AtomicLong()
        phone.app.testClock = Clock { now.addAndGet(7_000_000) }
        manager.addCameras()
        startCameraOfApp()
        phone.send(Event.ChooseModel("scenes-int8"))
        surface()
        sendToApp()
        val first = assertIs<Result.Answer>(phone.state.result).mask
        repeat(60) { sendToApp() }
        val mask = assertNotNull(assertIs<Result.Answer>(phone.state.result).mask)
        assertNotSame(first, mask)
        assertEquals(480f to 640f, mask.seen.run { right to bottom })
        phone.send(Event.ChooseOpacity(100))
        assertTrue(isLeftBeforeRight(mask))
        phone.screenshot("camera_mask")
        choose(Facing.FRONT)
        phone.settle()
        repeat(60) { sendToApp() }
        assertFalse(isLeftBeforeRight(mask))
    }

    /** Whether on the screen the class of the left half is on the left of that of the right. */
    private fun isLeftBeforeRight(of: Mask): Boolean {
        val classes = intArrayOf(1, 2)
        val shares = classes.map { ClassShare(it, of.labels[it], 0.5) }
        val halves = Mask(2, 1, classes, of.labels, shares, of.seen)
        val answer = assertIs<Result.Answer>(phone.state.result).copy(mask = halves)
        phone.send(Event.Classified(checkNotNull(jobOf(phone.state)), false, answer, 0))
        val screen = phone.picture()
        val colours = classColours(of.labels)
        val upper = Rect(0, 0, screen.width, screen.height / 3)
        val (left, right) = classes.map { placeOfColour(screen, colours[it], upper)!!.left }
        return left < right
    }

    @Test
    fun `the camera is opened again for a model with a larger input`() {
        RuntimeEnvironment.setQualifiers("+xxhdpi") // The display has enough pixels.
        val models = folder.newFolder()
        copyOfBundle(models, "digits-int8")
        val json = File(copyOfBundle(models, "digits-float16"), "model.json")
        json.writeText(enlarged(json.readText(), side = 512))
        phone.app.testBundles = FolderBundles(models)
        manager.addCameras()
        startCameraOfApp()
        assertEquals(FrameSize(1080, 1920), phone.state.frame)
        val large = FakeImageReader.newest
        phone.tap("digits-float16")
        phone.tap("digits-int8")
        surface()
        assertTrue(large.isClosed)
        assertEquals(FrameSize(480, 640), phone.state.frame)
        val small = FakeImageReader.newest
        // The other one of the comparison has the large input.
        phone.app.store(null).send(Event.PickModel(rival = true))
        phone.app.store(null).send(Event.ChooseModel("digits-float16"))
        phone.tap(R.string.screen_compare)
        surface()
        assertTrue(small.isClosed)
        assertEquals(FrameSize(1080, 1920), phone.state.frame)
    }

    private fun enlarged(json: String, side: Int): String {
        val changed = json
            .replace("\"height\": 32", "\"height\": $side")
            .replace("\"width\": 32", "\"width\": $side")
            .replace(Regex("1,(\\s*)32,(\\s*)32,(\\s*)3\\b"), "1,$1$side,$2$side,$33")
        check(changed != json) { "there is no input of 32 x 32 in $json" }
        return changed
    }

    @Test
    fun `frames are upright on the display that shows the app, whatever way it is held`() {
        phone.display = ShadowDisplayManager.addDisplay("w411dp-h891dp-hdpi")
        turn(phone.display, Surface.ROTATION_90)
        startWithCamera()
        assertEquals(FrameSize(640, 480), phone.state.frame)
        turn(phone.display, Surface.ROTATION_180)
        assertEquals(FrameSize(480, 640), phone.state.frame)
        turn(Display.DEFAULT_DISPLAY, Surface.ROTATION_90)
        assertEquals(FrameSize(480, 640), phone.state.frame)
    }

    private fun turn(display: Int, rotation: Int) {
        val displays = checkNotNull(phone.app.getSystemService(DisplayManager::class.java))
        shadowOf(displays.getDisplay(display)).setRotation(rotation)
        shadowOf(Looper.getMainLooper()).idle()
    }

    @Test
    fun `a device with only a front camera shows what that one sees`() {
        manager.addCamera("1", CameraCharacteristics.LENS_FACING_FRONT, 270)
        startCameraOfApp()
        assertEquals(Source.Camera(Facing.FRONT), phone.state.settings.source)
        assertFalse(phone.shows(R.string.problem_no_camera))
        assertFalse(phone.shows(R.string.camera_flip))
        sendToApp()
        assertIs<Result.Answer>(phone.state.result)
    }

    @Test
    fun `times of a picture are forgotten when the camera begins`() {
        manager.addCameras()
        startCameraOfApp()
        repeat(5) { sendToApp() }
        // The first three frames are the warm-up.
        assertTrue(assertIs<Result.Answer>(phone.state.result).times.count <= 2)
    }

    @Test
    fun `the camera is closed while the app is not in front`() {
        startWithCamera()
        val reader = FakeImageReader.newest
        phone.controller.pause()
        phone.settle()
        assertTrue(reader.isClosed)
        phone.controller.resume()
        phone.settle()
        assertFalse(FakeImageReader.newest.isClosed)
    }

    @Test
    fun `left, the camera is closed at once, however busy the worker is`() {
        startWithCamera()
        val reader = FakeImageReader.newest
        val busy = CountDownLatch(1)
        phone.app.worker.post { busy.await() } // As in an inference.
        phone.controller.pause()
        shadowOf(phone.app.cameraThread.looper).idle()
        assertTrue(TroubledCameraManager.open.isEmpty())
        // The worker may be reading one of its frames.
        assertFalse(reader.isClosed)
        busy.countDown()
        phone.settle()
        assertTrue(reader.isClosed)
    }

    @Test
    fun `a late failure of one camera leaves the other to be closed`() {
        startWithCamera()
        shadowOf(manager).triggerDisconnect()
        shadowOf(phone.app.cameraThread.looper).idle() // The activity does not know of it yet.
        phone.app.store(null).send(Event.ChooseSource(Source.Camera(Facing.FRONT)))
        phone.settle()
        val front = FakeImageReader.newest
        assertFalse(front.isClosed)
        phone.controller.pause()
        phone.settle()
        assertTrue(front.isClosed)
    }

    @Test
    fun `the other camera waits for the first one to be closed, however busy the worker is`() {
        startWithCamera()
        val busy = CountDownLatch(1)
        phone.app.worker.post { busy.await() } // As in an inference.
        choose(Facing.FRONT)
        busy.countDown()
        phone.settle()
        assertNull(phone.state.sourceProblem)
        assertEquals(Source.Camera(Facing.FRONT), phone.state.settings.source)
        assertEquals(2, TroubledCameraManager.openings)
        sendToApp()
        assertIs<Result.Answer>(phone.state.result)
    }

    @Test
    fun `a camera that is closed before it has opened is waited for`() {
        startWithCamera()
        val busy = CountDownLatch(1)
        phone.app.cameraThread.post { busy.await() }
        for (facing in listOf(Facing.FRONT, Facing.BACK, Facing.FRONT)) choose(facing)
        busy.countDown()
        phone.settle()
        assertNull(phone.state.sourceProblem)
        assertEquals(1, TroubledCameraManager.open.size)
        sendToApp()
        assertIs<Result.Answer>(phone.state.result)
        phone.controller.pause()
        phone.settle()
        assertTrue(TroubledCameraManager.open.isEmpty())
    }

    @Test
    fun `an activity that is made anew waits for the camera of the one before it`() {
        startWithCamera()
        val busy = CountDownLatch(1)
        phone.app.worker.post { busy.await() }
        val saved = Bundle()
        phone.controller.pause().stop().saveInstanceState(saved).destroy()
        phone.create(saved)
        giveSurface()
        busy.countDown()
        phone.settle()
        assertNull(phone.state.sourceProblem)
        sendToApp()
        assertIs<Result.Answer>(phone.state.result)
    }

    @Test
    fun `a camera that is left before its turn is not opened`() {
        startWithCamera()
        val busy = CountDownLatch(1)
        phone.app.cameraThread.post { busy.await() }
        for (facing in listOf(Facing.FRONT, Facing.BACK)) choose(facing)
        phone.controller.pause()
        busy.countDown()
        phone.settle()
        assertEquals(2, TroubledCameraManager.openings)
        assertTrue(TroubledCameraManager.open.isEmpty())
    }

    @Test
    fun `what a camera says after it was left is not shown`() {
        startWithCamera()
        shadowOf(manager).triggerDisconnect()
        shadowOf(phone.app.cameraThread.looper).idle() // The activity does not know of it yet.
        phone.controller.pause()
        phone.settle()
        assertNull(phone.state.sourceProblem)
    }

    @Test
    fun `a camera that fails while it opens leaves its turn to the next one`() {
        startWithCamera()
        TroubledCameraManager.isBroken = true
        choose(Facing.FRONT)
        phone.settle()
        assertTrue(phone.shows("error 4 of the camera"))
        TroubledCameraManager.isBroken = false
        choose(Facing.BACK)
        phone.settle()
        assertNull(phone.state.sourceProblem)
        assertEquals(3, TroubledCameraManager.openings)
        assertEquals(1, TroubledCameraManager.open.size)
    }

    @Test
    fun `the end of an earlier surface leaves the camera on`() {
        startWithCamera()
        phone.activity.camera.onSurfaceGone(SurfaceTexture(0))
        phone.settle()
        assertFalse(FakeImageReader.newest.isClosed)
    }

    @Test
    fun `after a check of the backends the camera goes on`() {
        val now = AtomicLong()
        phone.app.testClock = Clock { now.addAndGet(200_000_000) } // Each answer is shown.
        startWithCamera()
        sendToApp()
        phone.send(Event.Show(Screen.VERIFY))
        phone.send(Event.Verify)
        phone.rule.waitUntil(60_000) { !phone.state.verification.isRunning }
        phone.send(Event.Show(Screen.CLASSIFY))
        surface()
        val before = phone.state.result
        sendToApp()
        assertTrue(phone.state.result !== before)
        assertIs<Result.Answer>(phone.state.result)
    }

    private fun choose(facing: Facing) =
        phone.app.store(null).send(Event.ChooseSource(Source.Camera(facing)))

    @Test
    fun `a frame whose planes are too short is a message on the screen`() {
        startWithCamera()
        val frame = cameraFrame(640, 480) { _, _ -> 0 }
        frame.planes[0].buffer.limit(640 * 400) // In the middle of a row.
        FakeImageReader.newest.send(frame)
        phone.settle()
        assertTrue(phone.shows("BufferUnderflowException"))
        // The app lives on.
        phone.tap(R.string.action_retry)
        sendToApp()
        assertIs<Result.Answer>(phone.state.result)
    }

    @Test
    fun `frames allocate nothing but where the screen is written to`() {
        startWithCamera()
        val frames = phone.app.store(null).frames
        val image = RgbImage(480, 640)
        val bytes = LongArray(100)
        phone.app.worker.post { repeat(50) { frames.onFrame(image) } }
        phone.settle()
        val before = phone.state.result
        val shown = mutableListOf<Result>()
        phone.app.store(null).observe {
            if (it.result !== (shown.lastOrNull() ?: before)) shown += it.result
        }
        var nanos = 0L
        phone.app.worker.post {
            val start = System.nanoTime()
            for (i in bytes.indices) bytes[i] = allocatedBy { frames.onFrame(image) }
            nanos = System.nanoTime() - start
        }
        phone.settle()
        // The JVM itself allocates once in a while: 7 KB, in one frame of hundreds.
        val allocating = bytes.count { it > LITERT_BYTES_PER_RUN } - 1
        assertTrue(allocating <= shown.size, "$allocating, ${shown.size} shown: ${bytes.toList()}")
        // Five in a second; the app counts whole milliseconds, so that 200 of them may be 199.
        assertTrue(shown.size <= nanos / 199_000_000 + 1, "${shown.size} shown in $nanos ns")
    }

    private fun startWithCamera() {
        manager.addCameras()
        startCameraOfApp()
    }

    private fun startCameraOfApp() {
        shadowOf(phone.app).grantPermissions(Manifest.permission.CAMERA)
        phone.start()
        phone.tap(R.string.source_camera)
        surface()
    }

    // Robolectric's views make none.
    private fun surface() {
        giveSurface()
        phone.settle()
    }

    private fun giveSurface() {
        phone.activity.camera.onSurface(TextureView(phone.activity), SurfaceTexture(0))
    }

    private fun sendToApp() {
        FakeImageReader.newest.send(cameraFrame(640, 480) { x, _ -> if (x in 200..280) 255 else 0 })
        phone.settle()
    }
}
