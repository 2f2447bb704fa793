package dev.kerasvit.core

/** A bundle that cannot be used; [problem] says why. */
class BundleException(val problem: BundleProblem) : Exception(problem.toString())

/** Why a bundle cannot be used, typed so that an app can say it in its own language. */
sealed class BundleProblem {
    /** [file] is absent. */
    data class Missing(val file: String) : BundleProblem()

    /** [file] is not what the contract says; [detail] is one line in English. */
    data class Corrupt(val file: String, val detail: String) : BundleProblem()

    /** `model.tflite` is not the file that `model.json` describes. */
    data class WrongHash(val expected: String, val received: String) : BundleProblem()

    /** [file] was written by a newer exporter: the app must be updated. */
    data class NewerFormat(val file: String, val received: Long, val supported: Long) :
        BundleProblem()

    /** The gallery is damaged or of another model; [detail] is of [file], in English. */
    data class BadGallery(val file: String, val detail: String) : BundleProblem()

    /** Not a zip, or a damaged one; [detail] is one line in English. */
    data class BadZip(val detail: String) : BundleProblem()

    /** A zip without the files of a bundle. */
    object NoBundle : BundleProblem()

    /** A zip with several bundles, in [folders]. */
    data class Several(val folders: List<String>) : BundleProblem()

    /** The phone's storage is too full for a zip's bundle; both in bytes. */
    data class NoSpace(val needed: Long, val free: Long) : BundleProblem()
}
