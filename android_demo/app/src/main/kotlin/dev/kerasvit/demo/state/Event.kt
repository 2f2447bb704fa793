package dev.kerasvit.demo.state

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.engine.Backend

/** Everything that can happen: by the user, by the system, by the worker. */
sealed class Event {
    data class Show(val screen: Screen) : Event()

    object Back : Event()

    data class PickModel(val rival: Boolean) : Event()

    data class ChooseModel(val name: String) : Event()

    data class ChooseSource(val source: Source) : Event()

    /** A picture that another app gave to this one. */
    data class ShowShared(val picture: Source.Picture) : Event()

    data class ChooseBackend(val backend: Backend) : Event()

    data class ChooseThreads(val threads: Int) : Event()

    data class ChooseThreshold(val percent: Int) : Event()

    data class ChooseOpacity(val percent: Int) : Event()

    data class Search(val query: String) : Event()

    data class ShowSettings(val areShown: Boolean) : Event()

    /** Another app gave a zip to this one, which perhaps holds a model. */
    data class OfferZip(val uri: String) : Event()

    /** The user wants the model of this zip. */
    data class AddZip(val uri: String) : Event()

    /** The user does not want to wait for the other app any longer. */
    object StopCopying : Event()

    /** A computer may have pushed zips. */
    object LookForPushed : Event()

    /** Zips of these names were pushed, perhaps by another app. */
    data class OfferPushed(val zips: List<String>) : Event()

    /** The user wants the models that were pushed. */
    object AddPushed : Event()

    object RefusePushed : Event()

    /** A zip is being checked. */
    object Adding : Event()

    data class Added(val name: String) : Event()

    data class NotAdded(val problem: Problem) : Event()

    /** The user wants to remove a model, and is asked once more. */
    data class AskToRemove(val name: String) : Event()

    data class Remove(val name: String) : Event()

    object CloseDialog : Event()

    /** The user wants to name another class for a model of features. */
    data class NameClass(val isShown: Boolean) : Event()

    /** The user chose pictures of a class, which may be new. */
    data class AddPictures(val name: String, val uris: List<String>) : Event()

    /** So many of the pictures have been read. */
    data class PicturesAdded(val count: Int) : Event()

    object StopAddingPictures : Event()

    /** A model knows other classes than before. */
    data class ClassesChanged(val model: String) : Event()

    /** The user wants to remove the pictures that were added to a class. */
    data class AskToRemoveClass(val name: String) : Event()

    data class RemoveClass(val name: String) : Event()

    object Retry : Event()

    /** The app is in the background, and the system wants its memory. */
    object Sleep : Event()

    object Wake : Event()

    object Verify : Event()

    object StopVerifying : Event()

    data class PermissionChanged(val permission: Permission) : Event()

    data class CamerasFound(val cameras: List<Facing>) : Event()

    data class CameraOpened(val frame: FrameSize) : Event()

    data class SourceFailed(val source: Source, val problem: Problem) : Event()

    data class Failed(val problem: Problem) : Event()

    /** [added]: those of the models that the user added. */
    data class ModelsListed(val models: List<String>, val added: Set<String>) : Event()

    data class ModelRead(val model: Model) : Event()

    data class SamplesRead(val model: String, val samples: List<Sample>) : Event()

    data class PictureRead(val source: Source, val preview: Preview) : Event()

    /** [isRival]: of the second model of "Compare". */
    data class Classified(
        val job: Job,
        val isRival: Boolean,
        val result: Result,
        val atMillis: Long,
    ) : Event()

    /** [run]: of which check, see [Verification]. */
    data class BackendVerified(val run: Int, val verdict: BackendVerdict) : Event()

    data class VerificationEnded(
        val run: Int,
        val report: String? = null,
        val problem: Problem? = null,
    ) : Event()
}
