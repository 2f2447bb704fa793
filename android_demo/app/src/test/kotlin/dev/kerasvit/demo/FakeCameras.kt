package dev.kerasvit.demo

import android.graphics.ImageFormat
import android.hardware.camera2.CameraAccessException
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.util.Size
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.Executor
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements
import org.robolectric.annotation.RealObject
import org.robolectric.shadows.ShadowCameraCharacteristics
import org.robolectric.shadows.ShadowCameraDeviceImpl
import org.robolectric.shadows.ShadowCameraManager
import org.robolectric.shadows.StreamConfigurationMapBuilder

/** What a camera tells of itself; one without [sizes] gives no colour pictures. */
fun cameraOf(
    facing: Int,
    sensorDegrees: Int = 90,
    sizes: List<Size> = listOf(Size(640, 480)),
): CameraCharacteristics {
    val streams = StreamConfigurationMapBuilder.newBuilder()
    for (size in sizes) {
        streams.addOutputSize(ImageFormat.YUV_420_888, size)
        streams.addOutputSize(size)
    }
    val lens = ShadowCameraCharacteristics.newCameraCharacteristics()
    shadowOf(lens).set(CameraCharacteristics.LENS_FACING, facing)
    shadowOf(lens).set(CameraCharacteristics.SENSOR_ORIENTATION, sensorDegrees)
    val key = CameraCharacteristics.SCALER_STREAM_CONFIGURATION_MAP
    shadowOf(lens).set(key, streams.build())
    return lens
}

/** As in most phones: the sensors lie on their sides. */
fun CameraManager.addCameras() {
    addCamera("0", CameraCharacteristics.LENS_FACING_BACK, 90)
    addCamera("1", CameraCharacteristics.LENS_FACING_FRONT, 270)
}

fun CameraManager.addCamera(
    id: String,
    facing: Int,
    sensorDegrees: Int,
    sizes: List<Size> = listOf(Size(320, 240), Size(640, 480), Size(1920, 1080)),
) = shadowOf(this).addCamera(id, cameraOf(facing, sensorDegrees, sizes))

/**
 * Robolectric's cameras, which a test can unplug, or give to another app. As in many phones, a
 * second one does not open while one is open.
 */
@Implements(CameraManager::class)
class TroubledCameraManager : ShadowCameraManager() {
    @Implementation
    public override fun getCameraIdList(): Array<String> =
        super.getCameraIdList() + listOfNotNull(unplugged)

    // Every `openCamera` comes to this.
    @Implementation
    public override fun openCameraDeviceUserAsync(
        id: String,
        callback: CameraDevice.StateCallback,
        executor: Executor,
        user: Int,
        importance: Int,
    ): CameraDevice {
        if (isInUse) throw CameraAccessException(CameraAccessException.CAMERA_IN_USE)
        if (open.isNotEmpty()) {
            throw CameraAccessException(CameraAccessException.MAX_CAMERAS_IN_USE)
        }
        val told = if (isBroken) FailingOnceOpen(callback) else callback
        val camera = super.openCameraDeviceUserAsync(id, told, executor, user, importance)
        open += camera
        openings++
        return camera
    }

    companion object {
        /** A camera that is listed and gone. */
        var unplugged: String? = null
        var isInUse = false

        /** Fails while it opens. */
        var isBroken = false

        /** The cameras that are open, or on their way. */
        val open: MutableSet<CameraDevice> = ConcurrentHashMap.newKeySet()

        /** How often one was opened. */
        @Volatile
        var openings = 0

        fun repair() {
            unplugged = null
            isInUse = false
            isBroken = false
            open.clear()
            openings = 0
        }
    }
}

private class FailingOnceOpen(private val told: CameraDevice.StateCallback) :
    CameraDevice.StateCallback() {
    override fun onOpened(camera: CameraDevice) =
        told.onError(camera, CameraDevice.StateCallback.ERROR_CAMERA_DEVICE)

    override fun onDisconnected(camera: CameraDevice) = told.onDisconnected(camera)

    override fun onError(camera: CameraDevice, error: Int) = told.onError(camera, error)
}

/** Robolectric's camera, which [TroubledCameraManager] knows to be closed. */
@Implements(className = "android.hardware.camera2.impl.CameraDeviceImpl", isInAndroidSdk = false)
class TroubledCamera : ShadowCameraDeviceImpl() {
    @RealObject
    private lateinit var camera: CameraDevice

    @Implementation
    public override fun close() {
        super.close()
        TroubledCameraManager.open -= camera
    }
}
