package dev.kerasvit.demo.screen

import android.graphics.Matrix

/**
 * How a `TextureView` must be transformed to show the whole of a camera's picture, upright and
 * undistorted: the screen shows what the model sees.
 *
 * Without it, the picture is stretched to the view, and it is upright only while the display is in
 * its natural orientation. The picture of a front camera is a mirror's: the system has mirrored it
 * before it comes to the view, and a mirror's picture turns the same way.
 */
internal fun cameraTransform(
    viewWidth: Int,
    viewHeight: Int,
    pictureWidth: Int,
    pictureHeight: Int,
    sensorDegrees: Int,
    displayDegrees: Int,
): Matrix {
    val centreX = viewWidth / 2f
    val centreY = viewHeight / 2f
    val isTurned = sensorDegrees % 180 != 0
    val width = (if (isTurned) pictureHeight else pictureWidth).toFloat()
    val height = (if (isTurned) pictureWidth else pictureHeight).toFloat()
    val matrix = Matrix()
    matrix.setScale(width / viewWidth, height / viewHeight, centreX, centreY)
    matrix.postRotate(-displayDegrees.toFloat(), centreX, centreY)
    val isDisplayTurned = displayDegrees % 180 != 0
    val scale = minOf(
        viewWidth / (if (isDisplayTurned) height else width),
        viewHeight / (if (isDisplayTurned) width else height),
    )
    matrix.postScale(scale, scale, centreX, centreY)
    return matrix
}
