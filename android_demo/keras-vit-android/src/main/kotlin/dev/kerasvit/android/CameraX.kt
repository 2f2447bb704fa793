package dev.kerasvit.android

import androidx.camera.core.ImageProxy
import dev.kerasvit.core.Mask
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.Prediction
import dev.kerasvit.core.RgbImage
import kotlinx.coroutines.runBlocking

/**
 * Classifies a frame of CameraX's `ImageAnalysis`: its crop rectangle, turned upright.
 *
 * @param frame stays open: close it afterwards, or no other one comes
 */
suspend fun KerasVit.classify(frame: ImageProxy): List<Prediction> =
    answerFrame { convert(frame) }

fun KerasVit.classifyBlocking(frame: ImageProxy): List<Prediction> =
    runBlocking { classify(frame) }

/** The mask of such a frame: see [KerasVit.segment]. */
suspend fun KerasVit.segment(frame: ImageProxy): Mask = maskOfFrame { convert(frame) }

fun KerasVit.segmentBlocking(frame: ImageProxy): Mask = runBlocking { segment(frame) }

private fun FrameConverter.convert(frame: ImageProxy): RgbImage {
    read(
        frame.format,
        frame.width,
        frame.height,
        frame.planes,
        { it.buffer },
        { it.rowStride },
        { it.pixelStride },
    )
    val part = frame.cropRect
    val orientation = Orientation.ofRotation(frame.imageInfo.rotationDegrees)
    return upright(part.left, part.top, part.width(), part.height(), orientation)
}
