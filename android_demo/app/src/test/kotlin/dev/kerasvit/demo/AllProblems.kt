package dev.kerasvit.demo

import dev.kerasvit.core.BundleProblem
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure

/** One of each kind. */
val allProblems: List<Problem> = listOf(
    Problem.PermissionRefused(forEver = false),
    Problem.PermissionRefused(forEver = true),
    Problem.NoCamera,
    Problem.CameraInUse,
    Problem.CameraDisconnected,
    Problem.CameraDisabled,
    Problem.CameraFailed("error 4"),
    Problem.PictureGone,
    Problem.PictureUnreadable,
    Problem.PicturesSkipped(2),
    Problem.OutOfMemory,
    Problem.NoModels,
    Problem.Unexpected("java.lang.IllegalStateException: detail"),
) + listOf(
    BundleProblem.Missing("labels.txt"),
    BundleProblem.Corrupt("model.json", "expected a JSON object. Received: \"{\"."),
    BundleProblem.WrongHash("f".repeat(64), "0".repeat(64)),
    BundleProblem.NewerFormat("model.json", 2, 1),
    BundleProblem.BadGallery("gallery/gallery.json", "it is of another model.tflite."),
    BundleProblem.BadZip("zip END header not found"),
    BundleProblem.NoBundle,
    BundleProblem.Several(listOf("runs/flowers/export/int8", "runs/flowers/export/float16")),
    BundleProblem.NoSpace(needed = 343_000_000, free = 12_000_000),
).map { Problem.BadBundle("digits-int8", it) } + EngineFailure.values().map {
    Problem.EngineFailed(Backend.CPU_HALF, it, "its words", "2.17.0", "TensorFlow Lite 2.16.1")
}
