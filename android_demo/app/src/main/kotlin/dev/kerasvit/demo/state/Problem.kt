package dev.kerasvit.demo.state

import dev.kerasvit.core.BundleProblem
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure

/** Something that the user must be told. Each one is a message on the screen, never a crash. */
sealed class Problem {
    data class PermissionRefused(val forEver: Boolean) : Problem()

    object NoCamera : Problem()

    object CameraInUse : Problem()

    object CameraDisconnected : Problem()

    /** By a policy of the phone's owner, or by the privacy switch. */
    object CameraDisabled : Problem()

    data class CameraFailed(val detail: String) : Problem()

    /** No longer there, or no longer allowed to be read. */
    object PictureGone : Problem()

    /** Not a picture, or a damaged one. */
    object PictureUnreadable : Problem()

    /** So many of the pictures of a class; the others were added. */
    data class PicturesSkipped(val count: Int) : Problem()

    object OutOfMemory : Problem()

    /** The app was built without any bundle. */
    object NoModels : Problem()

    data class BadBundle(val model: String, val problem: BundleProblem) : Problem()

    data class EngineFailed(
        val backend: Backend,
        val kind: EngineFailure,
        /** The runtime's own words. */
        val reason: String,
        /** The oldest runtime that can load the model, from `model.json`. */
        val runtimeFloor: String,
        val runtime: String,
    ) : Problem()

    /** An error that nothing above describes: shown as it is, so that it can be reported. */
    data class Unexpected(val detail: String) : Problem()
}
