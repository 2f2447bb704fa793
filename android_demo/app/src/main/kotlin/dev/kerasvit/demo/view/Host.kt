package dev.kerasvit.demo.view

import android.graphics.SurfaceTexture
import android.view.TextureView
import android.view.View
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.UiState

/** What views ask of the activity. */
internal interface Host {
    fun send(event: Event)

    /** The camera, after asking for the permission where needed. */
    fun chooseCamera(facing: Facing)

    fun choosePhoto()

    fun openAppSettings()

    fun share(title: String, text: String)

    /** A surface for the camera exists now. */
    fun onCameraSurface(view: TextureView, surface: SurfaceTexture)

    fun onCameraSurfaceGone(surface: SurfaceTexture)
}

/** One screen: it draws states, and sends events through its [Host]. */
internal interface ScreenView {
    val view: View

    fun render(state: UiState)
}

internal fun Host.act(action: Action) = when (action) {
    Action.ALLOW_CAMERA -> chooseCamera(Facing.BACK)
    Action.OPEN_SETTINGS -> openAppSettings()
    Action.RETRY -> send(Event.Retry)
    Action.CHOOSE_PHOTO -> choosePhoto()
    Action.CHOOSE_MODEL -> send(Event.PickModel(rival = false))
}

internal var View.isVisible: Boolean
    get() = visibility == View.VISIBLE
    set(value) {
        visibility = if (value) View.VISIBLE else View.GONE
    }
