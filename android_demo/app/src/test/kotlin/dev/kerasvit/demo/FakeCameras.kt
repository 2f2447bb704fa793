package dev.kerasvit.demo

import android.graphics.ImageFormat
import android.hardware.camera2.CameraAccessException
import android.hardware.camera2.CameraCharacteristics
import android.hardware.camera2.CameraDevice
import android.hardware.camera2.CameraManager
import android.os.Handler
import android.util.Size
import org.robolectric.Shadows.shadowOf
import org.robolectric.annotation.Implementation
import org.robolectric.annotation.Implements
import org.robolectric.annotation.RealObject
import org.robolectric.shadow.api.Shadow
import org.robolectric.shadows.ShadowCameraCharacteristics
import org.robolectric.shadows.ShadowCameraManager
import org.robolectric.shadows.StreamConfigurationMapBuilder
import org.robolectric.util.ReflectionHelpers.ClassParameter

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

/** Robolectric's cameras, which a test can unplug, or give to another app. */
@Implements(CameraManager::class)
class TroubledCameraManager : ShadowCameraManager() {
    @RealObject
    private lateinit var manager: CameraManager

    @Implementation
    public override fun getCameraIdList(): Array<String> =
        super.getCameraIdList() + listOfNotNull(unplugged)

    @Implementation
    fun openCamera(id: String, callback: CameraDevice.StateCallback, handler: Handler?) {
        if (isInUse) throw CameraAccessException(CameraAccessException.CAMERA_IN_USE)
        Shadow.directlyOn<Any?, CameraManager>(
            manager,
            CameraManager::class.java,
            "openCamera",
            ClassParameter.from(String::class.java, id),
            ClassParameter.from(CameraDevice.StateCallback::class.java, callback),
            ClassParameter.from(Handler::class.java, handler),
        )
    }

    companion object {
        /** A camera that is listed and gone. */
        var unplugged: String? = null
        var isInUse = false

        fun repair() {
            unplugged = null
            isInUse = false
        }
    }
}
