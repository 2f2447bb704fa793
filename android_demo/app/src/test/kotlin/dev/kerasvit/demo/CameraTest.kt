package dev.kerasvit.demo

import android.graphics.SurfaceTexture
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraManager
import android.hardware.camera2.CameraMetadata
import android.util.Size
import dev.kerasvit.core.RgbImage
import dev.kerasvit.demo.source.Lens
import dev.kerasvit.demo.source.OpenCamera
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.FrameSize
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.work.Frames
import java.nio.BufferUnderflowException
import kotlin.test.assertEquals
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.After
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.mockito.Mockito.verify
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Config

/** One of Robolectric's cameras, from its opening to its closing. */
@RunWith(RobolectricTestRunner::class)
@Config(
    shadows = [FakeImageReader::class, TroubledCameraManager::class, TroubledCamera::class],
)
class CameraTest {
    @get:Rule
    val phone = Phone()
    private val manager = phone.app.getSystemService(CameraManager::class.java)
    private val classified = mutableListOf<RgbImage>()
    private val problems = mutableListOf<Problem>()

    @After
    fun repair() = TroubledCameraManager.repair()

    @Test
    fun `a frame reaches the model upright, whatever way the phone is held`() {
        manager.addCameras()
        // Where the first pixel of the sensor's first row must be on the screen.
        val cases = mapOf(
            (Facing.BACK to 0) to Corner(480, 640, 479, 0),
            (Facing.BACK to 90) to Corner(640, 480, 0, 0),
            (Facing.BACK to 270) to Corner(640, 480, 639, 479),
            (Facing.FRONT to 0) to Corner(480, 640, 0, 639),
            (Facing.FRONT to 90) to Corner(640, 480, 0, 0),
        )
        for ((held, expected) in cases) {
            val (facing, degrees) = held
            val camera = assertNotNull(open(facing, degrees))
            assertEquals(FrameSize(expected.width, expected.height), camera.lens.uprightSize)
            send { x, y -> if (x < 2 && y < 2) 255 else 0 }
            val image = classified.removeLast()
            assertEquals(expected.width to expected.height, image.width to image.height, "$held")
            assertEquals(255, image.level(expected.x, expected.y), "$held")
            assertEquals(255, image.bytes.maxOf { it.toInt() and 0xFF })
            camera.close()
            settle()
        }
    }

    private class Corner(val width: Int, val height: Int, val x: Int, val y: Int)

    @Test
    fun `frames are at least as large as a model wants them, where the camera has such`() {
        manager.addCameras()
        val expected = mapOf(200 to 240, 480 to 480, 512 to 1080, 1080 to 1080, 2000 to 1080)
        for ((leastSide, side) in expected) {
            val camera = assertNotNull(open(Facing.BACK, leastSide = leastSide))
            assertEquals(side, camera.lens.frameSize.height, "$leastSide")
            camera.close()
            settle()
        }
    }

    @Test
    fun `a lens that can focus by itself does, and another one is not asked to`() {
        val picture = CameraMetadata.CONTROL_AF_MODE_CONTINUOUS_PICTURE
        val cases = mapOf(
            intArrayOf(CameraMetadata.CONTROL_AF_MODE_OFF, picture) to picture,
            intArrayOf(CameraMetadata.CONTROL_AF_MODE_OFF) to null,
            null to null,
        )
        for ((modes, expected) in cases) {
            val camera = cameraOf(CameraCharacteristics.LENS_FACING_BACK)
            val key = CameraCharacteristics.CONTROL_AF_AVAILABLE_MODES
            if (modes != null) shadowOf(camera).set(key, modes)
            assertEquals(expected, Lens(camera, Facing.BACK, 0, FULL_HD, 480).focusMode)
        }
    }

    @Test
    fun `preview and frames have sizes that every camera gives at the same time`() {
        val sizes = listOf(
            Size(640, 480), Size(960, 720), Size(1440, 1080), Size(1600, 1200), Size(1920, 1080),
            Size(4032, 3024),
        )
        val camera = cameraOf(CameraCharacteristics.LENS_FACING_BACK, sizes = sizes)
        val found = { display: Size, leastSide: Int ->
            Lens(camera, Facing.BACK, 0, display, leastSide).run { previewSize to frameSize }
        }
        val (vga, fullHd) = Size(640, 480) to Size(1920, 1080)
        assertEquals(Size(1440, 1080) to vga, found(FULL_HD, 480))
        assertEquals(Size(1440, 1080) to vga, found(Size(1440, 3200), 480))
        assertEquals(fullHd to fullHd, found(FULL_HD, 2000))
        assertEquals(Size(960, 720) to vga, found(Size(720, 1600), 480))
        assertEquals(Size(960, 720) to Size(960, 720), found(Size(720, 1600), 2000))
        assertEquals(vga to vga, found(Size(240, 320), 480)) // The least that there is.
    }

    @Test
    fun `of the frames that came meanwhile only the newest is classified, and all are closed`() {
        manager.addCameras()
        open(Facing.BACK)
        val frames = List(5) { number -> cameraFrame(640, 480) { _, _ -> 20 * number } }
        // On the worker's own thread: it is busy while they come.
        phone.app.worker.post { for (frame in frames) FakeImageReader.newest.send(frame) }
        settle()
        assertEquals(listOf(80), classified.map { it.level(0, 0) })
        for (frame in frames) verify(frame).close()
    }

    @Test
    fun `after closing, nothing arrives and the camera is free`() {
        manager.addCameras()
        val camera = assertNotNull(open(Facing.BACK))
        val reader = FakeImageReader.newest
        camera.close()
        reader.send(cameraFrame(640, 480) { _, _ -> 0 })
        settle()
        assertTrue(classified.isEmpty())
        assertTrue(reader.isClosed)
    }

    @Test
    fun `a camera that another app takes over is told once`() {
        manager.addCameras()
        open(Facing.BACK)
        shadowOf(manager).triggerDisconnect()
        settle()
        assertEquals(listOf<Problem>(Problem.CameraDisconnected), problems)
        assertTrue(FakeImageReader.newest.isClosed)
    }

    @Test
    fun `a frame for which there is no memory is told, and closed`() {
        manager.addCameras()
        open(Facing.BACK) { throw OutOfMemoryError() }
        val frame = cameraFrame(640, 480) { _, _ -> 0 }
        FakeImageReader.newest.send(frame)
        settle()
        assertEquals(listOf<Problem>(Problem.OutOfMemory), problems)
        verify(frame).close()
    }

    @Test
    fun `a surprise in a frame is told, and the frame closed`() {
        manager.addCameras()
        val surprises = listOf(BufferUnderflowException(), IndexOutOfBoundsException("5"))
        for (surprise in surprises) {
            val camera = assertNotNull(open(Facing.BACK) { throw surprise })
            val frame = cameraFrame(640, 480) { _, _ -> 0 }
            FakeImageReader.newest.send(frame)
            settle()
            assertEquals(listOf<Problem>(Problem.Unexpected("$surprise")), problems)
            assertTrue(FakeImageReader.newest.isClosed)
            verify(frame).close()
            problems.clear()
            camera.close()
        }
    }

    @Test
    fun `cameras that give no colour pictures are not offered`() {
        manager.addCamera("0", CameraCharacteristics.LENS_FACING_BACK, 90, sizes = emptyList())
        manager.addCamera("1", CameraCharacteristics.LENS_FACING_FRONT, 270)
        assertEquals(listOf(Facing.FRONT), phone.app.cameras.facings())
        assertNull(open(Facing.BACK))
        assertEquals(listOf<Problem>(Problem.NoCamera), problems)
    }

    @Test
    fun `a webcam, which has no side, looks at the user`() {
        manager.addCamera("0", CameraCharacteristics.LENS_FACING_EXTERNAL, 0)
        assertEquals(listOf(Facing.FRONT), phone.app.cameras.facings())
    }

    @Test
    fun `a camera that is unplugged while cameras are looked for is none`() {
        TroubledCameraManager.unplugged = "9"
        assertEquals(emptyList(), phone.app.cameras.facings())
    }

    @Test
    fun `a camera that does not open is told, and holds no memory`() {
        manager.addCameras()
        TroubledCameraManager.isInUse = true
        open(Facing.BACK)
        assertEquals(listOf<Problem>(Problem.CameraInUse), problems)
        assertTrue(FakeImageReader.newest.isClosed)
    }

    private fun open(
        facing: Facing,
        displayDegrees: Int = 0,
        leastSide: Int = 480,
        classify: (RgbImage) -> Unit = {
            classified += RgbImage(it.width, it.height, it.bytes.clone())
        },
    ): OpenCamera? {
        val frames = object : Frames {
            override fun onFrame(image: RgbImage) = classify(image)
        }
        val texture = SurfaceTexture(0)
        val camera =
            phone.app.cameras.open(facing, texture, displayDegrees, FULL_HD, leastSide, frames) {
                problems += it
            }
        settle()
        return camera
    }

    private fun send(level: (x: Int, y: Int) -> Int) {
        FakeImageReader.newest.send(cameraFrame(640, 480, level = level))
        settle()
    }

    private fun settle() = repeat(3) {
        shadowOf(phone.app.cameraThread.looper).idle()
        shadowOf(phone.app.worker.looper).idle()
    }
}

private val FULL_HD = Size(1080, 1920)

private fun RgbImage.level(x: Int, y: Int): Int = bytes[(y * width + x) * 3].toInt() and 0xFF
