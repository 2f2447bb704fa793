package dev.kerasvit.demo.state

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.Mask
import dev.kerasvit.core.PatchColours
import dev.kerasvit.core.Prediction
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineInfo

/** All that is on the screen. It is never changed: each event makes a new one, see [reduce]. */
data class UiState(
    val settings: Settings = Settings(),
    /** Null until they have been listed. */
    val models: List<Model>? = null,
    /** What the runtime can offer at all. */
    val backends: List<Backend> = emptyList(),
    /** Null until somebody asked for the camera. */
    val cameras: List<Facing>? = null,
    val permission: Permission = Permission.UNKNOWN,
    /** The camera's upright frames; null until a camera was opened. */
    val frame: FrameSize? = null,
    /** The picture that the results belong to; null for the camera. */
    val preview: Preview? = null,
    /** What is wrong with the source of pictures. */
    val sourceProblem: Problem? = null,
    /** The chosen model's result; on the screen "Compare", [rivalResult] is the other one's. */
    val result: Result = Result.None,
    val rivalResult: Result = Result.None,
    /** What TalkBack says; changes rarely, see [reduce]. */
    val announcement: Announcement? = null,
    val verification: Verification = Verification(),
    /** What the user must know or decide before anything else. */
    val dialog: Dialog? = null,
    /** Whether backend, threads and threshold are being chosen. */
    val areSettingsShown: Boolean = false,
    /** Whether a class is being named, on the screen "Labels". */
    val isNamingClass: Boolean = false,
    /** Whether the app is in the background and has given its memory back. */
    val isAsleep: Boolean = false,
    /** Counts the user's retries: a job that is wanted again is another job. */
    val attempt: Int = 0,
) {
    val model: Model? get() = models?.find { it.name == settings.model }
    val rival: Model? get() = models?.find { it.name == settings.rival }

    /**
     * [result], or why the chosen model can have none. None where [sourceProblem] says why there
     * is no picture.
     */
    val shownResult: Result get() = shown(model, result)
    val shownRivalResult: Result get() = shown(rival, rivalResult)

    /** The model whose own picture and samples can be chosen. */
    val pictured: Model? get() = model?.takeIf { it.bundle != null } ?: rival

    /** Whether reading the models failed for a reason that may have passed. */
    val isReadingWanted: Boolean
        get() = models?.any { it.problem != null && it.problem !is Problem.BadBundle } ?: true

    private fun shown(model: Model?, result: Result): Result = when {
        sourceProblem != null -> Result.None
        models?.isEmpty() == true -> Result.Failed(Problem.NoModels)
        model?.problem != null -> Result.Failed(model.problem)
        else -> result
    }

    /** The camera to be open now; null if none. */
    val wantedCamera: Facing?
        get() = (settings.source as? Source.Camera)?.facing.takeIf {
            permission == Permission.GRANTED && sourceProblem == null &&
                (settings.screen == Screen.CLASSIFY || settings.screen == Screen.COMPARE)
        }

    /** The least side of the camera's frames: enlarged ones would lack what a model could see. */
    val wantedFrameSide: Int
        get() {
            val inputs = used.mapNotNull { it.bundle?.description?.input }
            return inputs.fold(FRAME_SIDE) { side, input -> maxOf(side, input.width, input.height) }
        }

    /** Whether no picture's class can be named: all that is used gives feature maps or masks. */
    val namesNoClasses: Boolean
        get() {
            val outputs = used.map { it.bundle?.description?.output }
            return outputs.isNotEmpty() && outputs.all { it?.map != null || it?.mask != null }
        }

    private val used: List<Model>
        get() = listOfNotNull(model, rival.takeIf { settings.screen == Screen.COMPARE })
}

/** What survives the end of the process: small, and nothing of it is computed. */
data class Settings(
    val screen: Screen = Screen.CLASSIFY,
    /** Where "back" leads from [Screen.MODELS], and which of the two models is being chosen. */
    val pickingFrom: Screen = Screen.CLASSIFY,
    val pickingRival: Boolean = false,
    val source: Source? = null,
    val model: String? = null,
    val rival: String? = null,
    val backend: Backend = Backend.CPU,
    val threads: Int = 2,
    /** Percent: a class that is less probable is not named. */
    val threshold: Int = 50,
    /** Percent: how much of a picture a mask covers up. */
    val opacity: Int = 60,
    /** What was searched for in the labels. */
    val query: String = "",
) {
    /** What is remembered when the app is started again. */
    val choices: Settings
        get() = copy(
            screen = Screen.CLASSIFY,
            pickingFrom = Screen.CLASSIFY,
            pickingRival = false,
            source = source.takeUnless { it is Source.Picture && !it.isLasting },
            query = "",
        )
}

enum class Screen { CLASSIFY, COMPARE, VERIFY, LABELS, MODELS }

/** Where pictures come from. */
sealed class Source {
    /** The picture that the chosen model brings along, in its `golden.json`. */
    object Golden : Source() {
        override fun toString() = "Golden"
    }

    data class Camera(val facing: Facing) : Source()

    /**
     * A picture of this phone, by its content URI.
     *
     * @property isLasting whether it can be read when the app is started again; one that another
     *     app shared cannot
     */
    data class Picture(val uri: String, val isLasting: Boolean = true) : Source()

    /** A picture in the chosen model's bundle, by its file name. */
    data class Sample(val name: String) : Source()
}

enum class Facing { BACK, FRONT }

/** Pixels of a camera's frame. */
data class FrameSize(val width: Int, val height: Int)

enum class Permission { UNKNOWN, GRANTED, REFUSED, REFUSED_FOR_EVER }

/** A bundle, of the app or one that the user added. */
data class Model(
    val name: String,
    /** Null while it is being read, and if there is a [problem]. */
    val bundle: Bundle? = null,
    val problem: Problem? = null,
    val samples: List<Sample> = emptyList(),
    /** Whether the user added it, and can remove it. */
    val isAdded: Boolean = false,
    /** How many pictures the user added to which classes. */
    val addedPictures: Map<String, Int> = emptyMap(),
)

/** What a dialog says. */
sealed class Dialog {
    /** Another app gave this zip to the app. */
    data class Offered(val uri: String) : Dialog()

    /** These zips came by a way that other apps have, too. */
    data class OfferedPushed(val zips: List<String>) : Dialog()

    /** The other app is asked for its zip, which may take long. */
    object Copying : Dialog()

    /** A zip is being checked. */
    object Adding : Dialog()

    data class NotAdded(val problem: Problem) : Dialog()

    data class Removing(val model: String) : Dialog()

    /** [count] of the pictures of a class have been read. */
    data class AddingPictures(val count: Int, val total: Int) : Dialog()

    data class RemovingClass(val name: String) : Dialog()
}

/** A picture in a bundle; no [thumbnail] before it was decoded, and if it cannot be. */
data class Sample(val name: String, val thumbnail: Preview? = null)

/** A picture to draw; its type belongs to the platform. */
interface Preview

/** What a model made of the picture. */
sealed class Result {
    object None : Result()

    /** [previous] stays on the screen, pale: an empty one would flicker. */
    data class Working(val previous: Answer? = null) : Result()

    /**
     * @property rows the most probable classes, the most probable first; there may be none of
     *     features, and are none of a feature map or a mask
     */
    data class Answer(
        val model: String,
        val rows: List<Prediction>,
        val info: EngineInfo,
        val operators: Int,
        val times: Times,
        /** Null unless the model gives features; empty where there is nothing to compare with. */
        val similar: List<Similar>? = null,
        /** Of a feature map alone. */
        val patches: Patches? = null,
        /** Of a segmenter alone. */
        val mask: Mask? = null,
        /** How many of the camera's frames are classified in a second; null if not measured. */
        val framesPerSecond: Double? = null,
    ) : Result()

    data class Failed(val problem: Problem) : Result()
}

/** A picture of a gallery, most similar to the one that is shown. */
data class Similar(val name: String, val similarity: Double, val thumbnail: Preview?)

/**
 * A feature map as a picture.
 *
 * @property aspect the width by the height of what the model sees of a picture
 */
data class Patches(val colours: PatchColours, val aspect: Float)

/** Whether a class is probable enough to be named; [threshold] in percent. */
fun Prediction.isNamed(threshold: Int): Boolean = probability >= threshold / 100.0

/** Milliseconds of each step, over the newest [count] runs. */
data class Times(val count: Int, val preprocessing: Time, val inference: Time, val reading: Time)

data class Time(val median: Double, val p90: Double)

/** A class that was named aloud at a time (milliseconds). */
data class Announcement(val label: String?, val probability: Double, val atMillis: Long)

/** The golden check of one model on all backends. */
data class Verification(
    /** Counts the checks: one that was stopped may still tell something. */
    val run: Int = 0,
    val model: String? = null,
    val isRunning: Boolean = false,
    val verdicts: List<BackendVerdict> = emptyList(),
    val problem: Problem? = null,
    val report: String? = null,
)

private const val FRAME_SIDE = 480
