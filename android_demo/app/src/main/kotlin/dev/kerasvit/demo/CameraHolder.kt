package dev.kerasvit.demo

import android.app.Activity
import android.graphics.SurfaceTexture
import android.hardware.display.DisplayManager
import android.util.Size
import android.view.Display
import android.view.Surface
import android.view.TextureView
import androidx.core.content.ContextCompat
import dev.kerasvit.demo.screen.cameraTransform
import dev.kerasvit.demo.source.Cameras
import dev.kerasvit.demo.source.OpenCamera
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.Store
import dev.kerasvit.demo.state.UiState

/** Keeps the camera open exactly while the activity is in front and the state wants it. */
internal class CameraHolder(
    private val activity: Activity,
    private val store: Store,
    private val cameras: Cameras,
) {
    private val displays = checkNotNull(activity.getSystemService(DisplayManager::class.java))
    private var view: TextureView? = null
    private var surface: SurfaceTexture? = null
    private var isInFront = false
    private var opened: Opened? = null
    private var openings = 0

    /** A camera and what it was opened for. */
    private class Opened(
        val camera: OpenCamera,
        val facing: Facing,
        val surface: SurfaceTexture,
        val degrees: Int,
        val leastSide: Int,
    ) {
        fun fits(facing: Facing, surface: SurfaceTexture, degrees: Int, leastSide: Int): Boolean =
            this.facing == facing && this.surface === surface && this.degrees == degrees &&
                this.leastSide == leastSide
    }

    fun findCameras() = store.send(Event.CamerasFound(cameras.facings()))

    fun onResume() {
        isInFront = true
        displays.registerDisplayListener(rotations, null)
        update(store.state)
    }

    fun onPause() {
        isInFront = false
        displays.unregisterDisplayListener(rotations)
        close()
    }

    fun onSurface(view: TextureView, surface: SurfaceTexture) {
        this.view = view
        this.surface = surface
        update(store.state)
        transform()
    }

    fun onSurfaceGone(gone: SurfaceTexture) {
        if (gone !== surface) return
        surface = null
        close()
    }

    fun update(state: UiState) {
        val facing = state.wantedCamera
        val surface = surface
        if (!isInFront || facing == null || surface == null) return close()
        val degrees = displayDegrees()
        val side = state.wantedFrameSide
        if (opened?.fits(facing, surface, degrees, side) == true) return
        close()
        val opening = ++openings
        val size = display().mode.run { Size(physicalWidth, physicalHeight) }
        val camera = cameras.open(facing, surface, degrees, size, side, store.frames) { problem ->
            activity.runOnUiThread { if (opening == openings) fail(facing, problem) }
        }
        opened = camera?.let { Opened(it, facing, surface, degrees, side) }
        transform()
        if (camera != null) store.send(Event.CameraOpened(camera.lens.uprightSize))
    }

    private fun fail(facing: Facing, problem: Problem) {
        opened = null
        store.send(Event.SourceFailed(Source.Camera(facing), problem))
    }

    private fun close() {
        opened?.camera?.close()
        opened = null
        openings++ // What the closed one still tells is of no interest.
    }

    private fun transform() {
        val view = view ?: return
        val lens = opened?.camera?.lens ?: return
        val size = lens.previewSize
        val matrix = cameraTransform(
            view.width,
            view.height,
            size.width,
            size.height,
            lens.sensorDegrees,
            lens.displayDegrees,
        )
        view.setTransform(matrix)
    }

    // Turning the phone upside down, from one landscape to the other, changes no configuration.
    private val rotations = object : DisplayManager.DisplayListener {
        override fun onDisplayChanged(id: Int) = update(store.state)

        override fun onDisplayAdded(id: Int) = Unit

        override fun onDisplayRemoved(id: Int) = Unit
    }

    // A foldable has several.
    private fun display(): Display = ContextCompat.getDisplayOrDefault(activity)

    private fun displayDegrees(): Int = when (display().rotation) {
        Surface.ROTATION_90 -> 90
        Surface.ROTATION_180 -> 180
        Surface.ROTATION_270 -> 270
        else -> 0
    }
}
