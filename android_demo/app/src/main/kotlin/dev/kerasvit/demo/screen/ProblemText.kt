package dev.kerasvit.demo.screen

import dev.kerasvit.core.BundleProblem
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure

/** What a problem looks like: what happened, what to do, the words of others, a button. */
internal data class ProblemText(
    val title: String,
    val body: String,
    /** Technical, not translated. */
    val detail: String = "",
    val action: Action? = null,
)

/** What the button under a problem does. */
internal enum class Action(val label: Int) {
    ALLOW_CAMERA(R.string.action_allow),
    OPEN_SETTINGS(R.string.action_settings),
    RETRY(R.string.action_retry),
    CHOOSE_PHOTO(R.string.action_photo),
    ADD_MODEL(R.string.models_add),
    CHOOSE_MODEL(R.string.action_model),
    CHOOSE_BACKEND(R.string.action_backend),
}

internal fun Wording.problem(problem: Problem): ProblemText = when (problem) {
    is Problem.PermissionRefused -> permission(problem.forEver)
    is Problem.NoCamera -> told(
        R.string.problem_no_camera,
        R.string.problem_no_camera_body,
        Action.CHOOSE_PHOTO,
    )
    is Problem.CameraInUse ->
        told(R.string.problem_in_use, R.string.problem_in_use_body, Action.RETRY)
    is Problem.CameraDisconnected ->
        told(R.string.problem_disconnected, R.string.problem_disconnected_body, Action.RETRY)
    is Problem.CameraDisabled ->
        told(R.string.problem_disabled, R.string.problem_disabled_body, Action.RETRY)
    is Problem.CameraFailed ->
        told(R.string.problem_camera, R.string.problem_camera_body, Action.RETRY)
            .copy(detail = problem.detail)
    is Problem.PictureGone ->
        told(R.string.problem_gone, R.string.problem_gone_body, Action.CHOOSE_PHOTO)
    is Problem.PictureUnreadable ->
        told(R.string.problem_unreadable, R.string.problem_unreadable_body, Action.CHOOSE_PHOTO)
    is Problem.PicturesSkipped -> ProblemText(
        plural(R.plurals.problem_skipped, problem.count, count(problem.count)),
        text(R.string.problem_skipped_body),
    )
    is Problem.OutOfMemory ->
        told(R.string.problem_memory, R.string.problem_memory_body, Action.RETRY)
    is Problem.NoModels ->
        told(R.string.problem_no_models, R.string.problem_no_models_body, Action.ADD_MODEL)
    is Problem.BadBundle -> bundle(problem.model, problem.problem)
    is Problem.EngineFailed -> engine(problem)
    is Problem.Unexpected ->
        told(R.string.problem_unexpected, R.string.problem_unexpected_body, Action.RETRY)
            .copy(detail = problem.detail)
}

private fun Wording.permission(forEver: Boolean): ProblemText = if (forEver) {
    told(
        R.string.problem_permission,
        R.string.problem_permission_for_ever_body,
        Action.OPEN_SETTINGS,
    )
} else {
    told(R.string.problem_permission, R.string.problem_permission_body, Action.ALLOW_CAMERA)
}

private fun Wording.bundle(model: String, problem: BundleProblem): ProblemText {
    val text = when (problem) {
        is BundleProblem.Missing -> ProblemText(
            text(R.string.problem_missing),
            text(R.string.problem_missing_body, problem.file, model),
        )
        is BundleProblem.Corrupt -> ProblemText(
            text(R.string.problem_corrupt),
            text(R.string.problem_corrupt_body, problem.file, model),
            problem.detail,
        )
        is BundleProblem.WrongHash -> ProblemText(
            text(R.string.problem_hash),
            text(R.string.problem_hash_body, model),
            text(R.string.problem_hash_detail, problem.expected, problem.received),
        )
        is BundleProblem.NewerFormat -> ProblemText(
            text(R.string.problem_newer),
            text(
                R.string.problem_newer_body,
                problem.file,
                model,
                problem.received,
                problem.supported,
            ),
        )
        is BundleProblem.BadGallery -> ProblemText(
            text(R.string.problem_gallery),
            text(R.string.problem_gallery_body, model),
            "${problem.file}: ${problem.detail}",
        )
        is BundleProblem.BadZip -> ProblemText(
            text(R.string.problem_zip),
            text(R.string.problem_zip_body, model),
            problem.detail,
        )
        is BundleProblem.NoBundle -> ProblemText(
            text(R.string.problem_no_bundle),
            text(R.string.problem_no_bundle_body, model),
        )
        is BundleProblem.Several -> ProblemText(
            text(R.string.problem_several),
            text(R.string.problem_several_body, model),
            problem.folders.joinToString("\n"),
        )
        is BundleProblem.NoSpace -> ProblemText(
            text(R.string.problem_space),
            text(R.string.problem_space_body, size(problem.needed), size(problem.free)),
        )
    }
    return text.copy(action = Action.CHOOSE_MODEL)
}

private fun Wording.engine(problem: Problem.EngineFailed): ProblemText {
    val backend = backend(problem.backend)
    val text = when (problem.kind) {
        EngineFailure.TOO_OLD -> ProblemText(
            text(R.string.problem_too_old),
            text(R.string.problem_too_old_body, problem.runtimeFloor, problem.runtime),
            action = Action.CHOOSE_MODEL,
        )
        EngineFailure.REFUSED -> ProblemText(
            text(R.string.problem_refused, backend),
            text(R.string.problem_refused_body) + advice(problem.backend),
            action = Action.CHOOSE_BACKEND,
        )
        EngineFailure.UNAVAILABLE -> ProblemText(
            text(R.string.problem_unavailable, backend),
            text(R.string.problem_unavailable_body),
            action = Action.CHOOSE_BACKEND,
        )
        EngineFailure.NOT_FINITE -> ProblemText(
            text(R.string.problem_not_finite, backend),
            text(R.string.problem_not_finite_body),
            action = Action.CHOOSE_BACKEND,
        )
        EngineFailure.UNKNOWN_CLASS -> ProblemText(
            text(R.string.problem_unknown_class, backend),
            text(R.string.problem_unknown_class_body),
            action = Action.CHOOSE_MODEL,
        )
        EngineFailure.OUT_OF_MEMORY ->
            told(R.string.problem_memory, R.string.problem_memory_body, Action.RETRY)
    }
    return text.copy(detail = problem.reason)
}

private fun Wording.advice(backend: Backend): String =
    if (backend == Backend.NPU) "\n" + text(R.string.setting_npu) else ""

private fun Wording.told(title: Int, body: Int, action: Action?) =
    ProblemText(text(title), text(body), action = action)
