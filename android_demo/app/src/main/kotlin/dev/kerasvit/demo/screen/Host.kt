package dev.kerasvit.demo.screen

import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing

/** What screens ask of the phone. */
internal interface Host {
    /** The camera, after asking for the permission where needed. */
    fun chooseCamera(facing: Facing)

    fun choosePhoto()

    /** Lets the user choose pictures of a class of this name. */
    fun choosePictures(name: String)

    /** Lets the user choose a zip with a model. */
    fun chooseZip()

    fun openAppSettings()

    fun share(title: String, text: String)

    /** Where the camera draws what it sees. */
    @Composable
    fun Camera(modifier: Modifier)
}

internal fun Host.act(action: Action, send: (Event) -> Unit) = when (action) {
    Action.ALLOW_CAMERA -> chooseCamera(Facing.BACK)
    Action.OPEN_SETTINGS -> openAppSettings()
    Action.RETRY -> send(Event.Retry)
    Action.CHOOSE_PHOTO -> choosePhoto()
    Action.ADD_MODEL -> chooseZip()
    Action.CHOOSE_MODEL -> send(Event.PickModel(rival = false))
    Action.CHOOSE_BACKEND -> send(Event.ShowSettings(true))
}
