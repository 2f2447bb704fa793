package dev.kerasvit.demo

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.BundleProblem
import dev.kerasvit.core.Measured
import dev.kerasvit.core.Outcome
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.FrameSize
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Permission
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.jobOf
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo

/**
 * One of the things that the app can look like.
 *
 * @property isBusy whether it lasts only while the worker has something to do
 * @property isPictured problems look much the same: only some of them are in the sheets
 * @property events what happens after the app's start with the model's own picture
 */
class Look(
    val name: String,
    val isBusy: Boolean = false,
    val isPictured: Boolean = true,
    val events: (UiState) -> List<Event>,
)

/** Pictures of a class, which are no longer there. */
val PHOTOS = List(8) { "content://photos/$it" }

private val PICTURED = setOf(
    "no camera", "picture unreadable", "out of memory", "missing", "wrong hash", "newer format",
    "engine: too old",
)

val looks: List<Look> = listOf(
    Look("answer") { emptyList() },
    Look("not sure") { listOf(Event.ChooseThreshold(100)) },
    Look("similar pictures") { listOf(Event.ChooseModel("digits-features")) },
    Look("colours of patches") { listOf(Event.ChooseModel("digits-map")) },
    Look("mask") { listOf(Event.ChooseModel("scenes-int8")) },
    Look("nothing to compare with", isBusy = true) { state ->
        val model = state.models!!.single { it.name == "digits-features" }
        val bundle = model.bundle!!.copy(labels = emptyList(), gallery = null)
        val answer = (state.result as Result.Answer).copy(rows = emptyList(), similar = emptyList())
        listOf(Event.ModelRead(model.copy(bundle = bundle)), Event.ChooseModel(model.name)) +
            Event.Classified(jobOf(state)!!.copy(model = model.name), false, answer, 0)
    },
    Look("working", isBusy = true) { listOf(Event.ChooseSource(Source.Sample("dog.jpg"))) },
    Look("settings") { listOf(Event.ShowSettings(true)) },
    Look("camera") { camera(Permission.GRANTED) + Event.CameraOpened(FrameSize(480, 640)) },
    Look("permission refused") { camera(Permission.REFUSED) },
    Look("permission refused for ever") { camera(Permission.REFUSED_FOR_EVER) },
    Look("compare") { listOf(Event.Show(Screen.COMPARE)) },
    Look("compare masks") {
        val rival = listOf(Event.PickModel(rival = true), Event.ChooseModel("scenes-int8"))
        listOf(Event.ChooseModel("scenes-int8")) + rival + Event.Show(Screen.COMPARE)
    },
    Look("verify masks") {
        listOf(Event.ChooseModel("scenes-int8"), Event.Show(Screen.VERIFY), Event.Verify)
    },
    Look("compare with a damaged model") { listOf(damaged, Event.Show(Screen.COMPARE)) },
    Look("verify") { listOf(Event.Show(Screen.VERIFY)) },
    Look("verify, running", isBusy = true) { listOf(Event.Show(Screen.VERIFY), Event.Verify) },
    Look("verify, done") { listOf(Event.Show(Screen.VERIFY), Event.Verify) },
    Look("verify, bad", isBusy = true) { state ->
        val run = state.verification.run + 1
        listOf(Event.Show(Screen.VERIFY), Event.Verify) +
            badVerdicts.map { Event.BackendVerified(run, it) }
    },
    Look("labels") { listOf(Event.Show(Screen.LABELS)) },
    Look("labels, none found") { listOf(Event.Show(Screen.LABELS), Event.Search("zebra")) },
    Look("labels, pictures added") { state ->
        val model = state.models!!.single { it.name == "digits-features" }
        val added = model.copy(addedPictures = mapOf("0" to 3))
        listOf(Event.ChooseModel(model.name), Event.ModelRead(added), Event.Show(Screen.LABELS))
    },
    Look("labels, of a feature map") {
        listOf(Event.ChooseModel("digits-map"), Event.Show(Screen.LABELS))
    },
    Look("new class") {
        val model = Event.ChooseModel("digits-features")
        listOf(model, Event.Show(Screen.LABELS), Event.NameClass(true))
    },
    Look("pictures being added", isBusy = true) {
        listOf(Event.AddPictures("cup", PHOTOS), Event.PicturesAdded(3))
    },
    Look("class to be removed") { listOf(Event.AskToRemoveClass("cup")) },
    Look("models") { listOf(Event.PickModel(rival = false)) },
    Look("models, one damaged") { listOf(damaged, Event.PickModel(rival = false)) },
    Look("models, one being read") {
        listOf(Event.ModelRead(Model("cifar10-int8")), Event.PickModel(rival = false))
    },
    Look("models, one added") {
        listOf(Event.ModelRead(it.models!![1].copy(isAdded = true)), Event.PickModel(rival = false))
    },
    Look("zip offered") { listOf(Event.OfferZip("content://mail/7")) },
    Look("zips pushed") { listOf(Event.OfferPushed(listOf("flowers-int8.zip", "fruit.zip"))) },
    Look("zip being copied", isBusy = true) { listOf(Event.AddZip("content://mail/7")) },
    Look("model being added", isBusy = true) { listOf(Event.Adding) },
    Look("model not added") {
        val problem = BundleProblem.Corrupt("model.json", "expected a JSON object.")
        listOf(Event.NotAdded(Problem.BadBundle("flowers-int8.zip", problem)))
    },
    Look("model to be removed") { listOf(Event.AskToRemove("cifar10-int8")) },
) + allProblems.filterNot { it is Problem.PermissionRefused }.map { problem ->
    Look(nameOf(problem), isPictured = nameOf(problem) in PICTURED) {
        listOf(Event.SourceFailed(Source.Golden, problem))
    }
}

private val damaged = Event.ModelRead(
    Model(
        "cifar10-int8",
        problem = Problem.BadBundle("cifar10-int8", BundleProblem.Missing("labels.txt")),
    ),
)

// One whose numbers differ too much, one with another class, one that has no numbers.
private val badVerdicts = listOf(
    BackendVerdict(Backend.CPU, Outcome.Failed(measured(scoreDifference = 12.5, foundClass = 9))),
    BackendVerdict(Backend.CPU_HALF, Outcome.Passed(measured(scoreDifference = 0.01, 9))),
    BackendVerdict(
        Backend.CPU_PLAIN,
        Outcome.Refused(EngineFailure.NOT_FINITE, "the scores are NaN"),
    ),
)

private fun measured(scoreDifference: Double, foundClass: Int) = Measured(
    tensorDifference = 0.0,
    tensorTolerance = 1e-6,
    scoreDifference = scoreDifference,
    scoreTolerance = 0.0625,
    expectedClass = 4,
    foundClass = foundClass,
    inferenceMillis = 1234.5,
    info = EngineInfo(Backend.CPU, 2, "TensorFlow Lite 2.16.1", 127),
)

private fun camera(permission: Permission): List<Event> = listOf(
    Event.CamerasFound(listOf(Facing.BACK, Facing.FRONT)),
    Event.ChooseSource(Source.Camera(Facing.BACK)),
    Event.PermissionChanged(permission),
)

/** "out of memory", "wrong hash", "engine: too old". */
private fun nameOf(problem: Problem): String = when (problem) {
    is Problem.BadBundle -> words(problem.problem.javaClass.simpleName)
    is Problem.EngineFailed -> "engine: " + problem.kind.name.lowercase().replace('_', ' ')
    else -> words(problem.javaClass.simpleName)
}

private fun words(name: String): String =
    name.replace(Regex("(?<=.)[A-Z]")) { " " + it.value }.lowercase()
