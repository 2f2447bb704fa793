package androidx.camera.core

import android.graphics.Rect
import java.nio.ByteBuffer

/** What is used here of CameraX's interface of this name. */
interface ImageProxy : AutoCloseable {
    val format: Int
    val width: Int
    val height: Int
    val cropRect: Rect
    val planes: Array<PlaneProxy>
    val imageInfo: ImageInfo

    interface PlaneProxy {
        val rowStride: Int
        val pixelStride: Int
        val buffer: ByteBuffer
    }
}

interface ImageInfo {
    val rotationDegrees: Int
}
