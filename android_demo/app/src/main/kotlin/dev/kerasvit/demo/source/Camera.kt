package dev.kerasvit.demo.source

import android.annotation.SuppressLint
import android.content.Context
import android.graphics.ImageFormat
import android.graphics.SurfaceTexture
import android.hardware.camera2.CameraAccessException
import android.hardware.camera2.CameraCaptureSession
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.hardware.camera2.CaptureRequest
import android.media.ImageReader
import android.os.Handler
import android.util.Size
import android.view.Surface
import dev.kerasvit.android.FrameConverter
import dev.kerasvit.core.Orientation
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.FrameSize
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.work.Frames

/**
 * The phone's cameras, of which one is open at a time: many phones refuse a second one.
 *
 * @param thread opens and closes cameras, also while the worker is busy
 * @param worker gets their frames
 */
class Cameras(context: Context, private val thread: Handler, private val worker: Handler) {
    private val manager = checkNotNull(context.getSystemService(CameraManager::class.java))
    private val turns = Turns()

    /** The sides on which there is a camera; empty if there is none, or none may be used. */
    fun facings(): List<Facing> = try {
        Facing.values().filter { idOf(it) != null }
    } catch (_: CameraAccessException) {
        emptyList()
    } catch (_: IllegalArgumentException) {
        emptyList() // Unplugged in between.
    }

    /**
     * Opens a camera when the one before it, which must have been closed, is free again. The
     * permission must have been granted.
     *
     * @param display its pixels: not every camera gives larger frames
     * @param leastSide of the frames, in pixels, where the camera has such
     * @param frames gets upright images: always the newest frame, frames that come while one is
     *     classified are dropped
     * @param fail called at most once: here or, later, on the cameras' thread
     * @return null if there is no such camera
     */
    @SuppressLint("MissingPermission")
    fun open(
        facing: Facing,
        preview: SurfaceTexture,
        displayDegrees: Int,
        display: Size,
        leastSide: Int,
        frames: Frames,
        fail: (Problem) -> Unit,
    ): OpenCamera? = try {
        val id = idOf(facing) ?: throw NoSuchElementException()
        val characteristics = manager.getCameraCharacteristics(id)
        val lens = Lens(characteristics, facing, displayDegrees, display, leastSide)
        preview.setDefaultBufferSize(lens.previewSize.width, lens.previewSize.height)
        val ask = { callback: CameraDevice.StateCallback ->
            manager.openCamera(id, callback, thread)
        }
        val surface = Surface(preview)
        val camera = OpenCamera(lens, surface, thread, worker, frames, ask, turns::end, fail)
        // Behind the closing of the camera before it, which is a task of this thread, too.
        thread.post { turns.queue(camera) }
        camera
    } catch (error: CameraAccessException) {
        fail(problemOf(error))
        null
    } catch (_: SecurityException) {
        fail(Problem.CameraDisabled)
        null
    } catch (_: NoSuchElementException) {
        fail(Problem.NoCamera)
        null
    } catch (error: IllegalArgumentException) {
        fail(Problem.CameraFailed(error.message.orEmpty()))
        null
    }

    private fun idOf(facing: Facing): String? = manager.cameraIdList.firstOrNull { id ->
        val wanted = if (facing == Facing.FRONT) {
            CameraCharacteristics.LENS_FACING_FRONT
        } else {
            CameraCharacteristics.LENS_FACING_BACK
        }
        // Webcams of tablets and desktops have no side; they count as looking at the user.
        val characteristics = manager.getCameraCharacteristics(id)
        val found = characteristics[CameraCharacteristics.LENS_FACING]
        val isExternal = found == CameraCharacteristics.LENS_FACING_EXTERNAL
        val isThere = found == wanted || isExternal && facing == Facing.FRONT
        isThere && frameSizes(characteristics).isNotEmpty()
    }
}

// None for a camera that measures only depth, for instance.
private fun frameSizes(characteristics: CameraCharacteristics): List<Size> =
    characteristics[CameraCharacteristics.SCALER_STREAM_CONFIGURATION_MAP]
        ?.getOutputSizes(ImageFormat.YUV_420_888).orEmpty().toList()

/** Every camera gives frames and a preview at once that have at most 1080p, and the display's. */
private fun Size.isFor(display: Size): Boolean =
    maxOf(width, height) <= minOf(maxOf(display.width, display.height), 1920) &&
        minOf(width, height) <= minOf(display.width, display.height, 1080)

/** What is known of a camera before it is opened. */
class Lens(
    characteristics: CameraCharacteristics,
    facing: Facing,
    val displayDegrees: Int,
    display: Size,
    leastSide: Int,
) {
    val sensorDegrees: Int = characteristics[CameraCharacteristics.SENSOR_ORIENTATION] ?: 0

    val orientation: Orientation =
        Orientation.ofCamera(sensorDegrees, displayDegrees, facing == Facing.FRONT)

    // Small enough to be converted 30 times a second, large enough for the model.
    val frameSize: Size = frameSizes(characteristics).let { all ->
        val sizes = all.filter { it.isFor(display) }.ifEmpty { all }
        sizes.filter { minOf(it.width, it.height) >= leastSide }
            .minByOrNull { it.width * it.height }
            ?: sizes.maxBy { it.width * it.height }
    }

    /** What focuses by itself while pictures are taken; null where the lens cannot be moved. */
    val focusMode: Int? = CaptureRequest.CONTROL_AF_MODE_CONTINUOUS_PICTURE.takeIf {
        it in (characteristics[CameraCharacteristics.CONTROL_AF_AVAILABLE_MODES] ?: IntArray(0))
    }

    /** [frameSize] after [orientation]. */
    val uprightSize: FrameSize = when (orientation) {
        Orientation.ROTATED_90, Orientation.ROTATED_270 ->
            FrameSize(frameSize.height, frameSize.width)
        else -> FrameSize(frameSize.width, frameSize.height)
    }

    // The same aspect ratio as the frame: the screen shows what the model sees.
    val previewSize: Size = characteristics[CameraCharacteristics.SCALER_STREAM_CONFIGURATION_MAP]
        ?.getOutputSizes(SurfaceTexture::class.java).orEmpty()
        .filter { it.width * frameSize.height == it.height * frameSize.width }
        .filter { it.isFor(display) }
        .maxByOrNull { it.width * it.height }
        ?: frameSize
}

/** Lets one camera after the other be open. For the cameras' thread. */
private class Turns {
    private var holder: OpenCamera? = null
    private var next: OpenCamera? = null

    /** Opens [camera] when no other one is open, unless it ends before or another one waits. */
    fun queue(camera: OpenCamera) {
        next = camera
        if (holder == null) advance()
    }

    fun end(camera: OpenCamera) {
        if (next === camera) next = null
        if (holder !== camera) return
        holder = null
        advance()
    }

    private fun advance() {
        val camera = next ?: return
        next = null
        holder = camera
        camera.open()
    }
}

/** A camera from before its opening to [close]. */
class OpenCamera internal constructor(
    val lens: Lens,
    private val preview: Surface,
    private val thread: Handler,
    private val worker: Handler,
    private val frames: Frames,
    private val ask: (CameraDevice.StateCallback) -> Unit,
    private val whenFree: (OpenCamera) -> Unit,
    private val fail: (Problem) -> Unit,
) : AutoCloseable {
    // Two images: one is being classified, the other is the newest.
    private val reader = ImageReader.newInstance(
        lens.frameSize.width,
        lens.frameSize.height,
        ImageFormat.YUV_420_888,
        2,
    )
    private val converter = FrameConverter()
    private var device: CameraDevice? = null
    private var isOpening = false

    @Volatile
    private var isClosed = false // Also read by the worker.

    init {
        reader.setOnImageAvailableListener({ classify() }, worker)
    }

    private fun classify() {
        if (!isClosed) attempt {
            reader.acquireLatestImage()?.use {
                frames.onFrame(converter.convert(it, lens.orientation))
            }
        }
    }

    private val deviceCallback = object : CameraDevice.StateCallback() {
        override fun onOpened(camera: CameraDevice) {
            isOpening = false
            device = camera
            if (isClosed) release() else attempt { start(camera) }
        }

        override fun onDisconnected(camera: CameraDevice) = lose(camera, Problem.CameraDisconnected)

        override fun onError(camera: CameraDevice, error: Int) = lose(camera, problemOf(error))
    }

    /** On the cameras' thread. */
    internal fun open() = attempt {
        ask(deviceCallback)
        isOpening = true // Until the callback, which is a later task of this thread.
    }

    /** From any thread; the camera is free a moment later. */
    override fun close() {
        thread.post {
            if (!isClosed) {
                isClosed = true
                release()
            }
        }
    }

    // The newer call, with a configuration object, exists since Android 9.
    @Suppress("DEPRECATION")
    private fun start(camera: CameraDevice) {
        val callback = object : CameraCaptureSession.StateCallback() {
            override fun onConfigured(session: CameraCaptureSession) {
                if (!isClosed) attempt { repeat(camera, session) }
            }

            override fun onConfigureFailed(session: CameraCaptureSession) =
                stop(Problem.CameraFailed("the capture session was refused"))
        }
        camera.createCaptureSession(listOf(preview, reader.surface), callback, thread)
    }

    private fun repeat(camera: CameraDevice, session: CameraCaptureSession) {
        val request = camera.createCaptureRequest(CameraDevice.TEMPLATE_PREVIEW)
        request.addTarget(preview)
        request.addTarget(reader.surface)
        lens.focusMode?.let { request[CaptureRequest.CONTROL_AF_MODE] = it }
        session.setRepeatingRequest(request.build(), null, thread)
    }

    // On both threads. Inline: a function object would be an allocation for each frame.
    private inline fun attempt(action: () -> Unit) {
        try {
            action()
        } catch (error: Exception) {
            thread.post { stop(problemOf(error)) }
        } catch (_: OutOfMemoryError) {
            thread.post { stop(Problem.OutOfMemory) }
        }
    }

    private fun lose(camera: CameraDevice, problem: Problem) {
        isOpening = false
        device = camera
        stop(problem)
    }

    private fun stop(problem: Problem) {
        val isNews = !isClosed
        isClosed = true
        release()
        if (isNews) fail(problem)
    }

    private fun release() {
        device?.close()
        device = null
        preview.release()
        // Behind the frame that may be read just now, whose memory it is.
        worker.post { reader.close() }
        // A device that is still being opened is closed when it is open.
        if (!isOpening) whenFree(this)
    }
}

private fun problemOf(error: Exception): Problem = when (error) {
    is CameraAccessException -> problemOf(error)
    // With the permission granted, this is an administrator's rule: asking again changes nothing.
    is SecurityException -> Problem.CameraDisabled
    // The camera was closed by the system in between.
    is IllegalStateException, is IllegalArgumentException ->
        Problem.CameraFailed(error.message.orEmpty())
    // A mistake in the app, or a surprise of a phone, such as planes that are too short.
    else -> Problem.Unexpected(error.toString())
}

private fun problemOf(error: CameraAccessException): Problem = when (error.reason) {
    CameraAccessException.CAMERA_IN_USE, CameraAccessException.MAX_CAMERAS_IN_USE ->
        Problem.CameraInUse
    CameraAccessException.CAMERA_DISABLED -> Problem.CameraDisabled
    CameraAccessException.CAMERA_DISCONNECTED -> Problem.CameraDisconnected
    else -> Problem.CameraFailed(error.message.orEmpty())
}

private fun problemOf(error: Int): Problem = when (error) {
    CameraDevice.StateCallback.ERROR_CAMERA_IN_USE,
    CameraDevice.StateCallback.ERROR_MAX_CAMERAS_IN_USE,
    -> Problem.CameraInUse
    CameraDevice.StateCallback.ERROR_CAMERA_DISABLED -> Problem.CameraDisabled
    else -> Problem.CameraFailed("error $error of the camera")
}
