package dev.kerasvit.demo.work

import dev.kerasvit.core.Bundle
import dev.kerasvit.core.BundleException
import dev.kerasvit.core.Classification
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.Clock
import dev.kerasvit.core.CropBox
import dev.kerasvit.core.Gallery
import dev.kerasvit.core.GalleryPicture
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.StoredClasses
import dev.kerasvit.core.Timings
import dev.kerasvit.core.countOf
import dev.kerasvit.core.mapModel
import dev.kerasvit.core.merged
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readGolden
import dev.kerasvit.core.readModel
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.demo.state.Job
import dev.kerasvit.demo.state.Patches
import dev.kerasvit.demo.state.Preview
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Similar
import dev.kerasvit.demo.state.Time
import dev.kerasvit.demo.state.Times
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import java.nio.ByteBuffer

/** The one or two loaded models. For the worker's thread. */
internal class LoadedModels(
    private val bundles: Bundles,
    private val classes: StoredClasses,
    private val engines: EngineFactory,
    private val clock: Clock,
) {
    private val read = HashMap<String, Bundle>()
    private val hashed = HashSet<String>()
    private var chosen: LoadedModel? = null
    private var rival: LoadedModel? = null
    private val both = ArrayList<LoadedModel>(2)

    /**
     * A checked bundle, but for the model's hash; in its gallery is also what the user added.
     * Throws [BundleException].
     */
    fun bundle(name: String): Bundle = read.getOrPut(name) {
        val bundle = readBundle(bundles.files(name))
        val gallery = merged(bundle.gallery, added(bundle))
        if (gallery == null) bundle else bundle.copy(labels = gallery.classes, gallery = gallery)
    }

    /** How many pictures the user added to which classes. Throws [BundleException]. */
    fun addedPictures(name: String): Map<String, Int> {
        val added = added(bundle(name))
        return added?.classes.orEmpty().associateWith { added.countOf(it) }
    }

    private fun added(bundle: Bundle): Gallery? = bundle.description
        .takeIf { it.output.givesFeatures }
        ?.let(classes::read)

    /** The picture in a bundle's `golden.json`. Throws [BundleException]. */
    fun goldenImage(name: String): RgbImage = readGolden(bundles.files(name), bundle(name)).image

    /** Loads what the job needs and closes the rest; [fail] tells what cannot be loaded. */
    fun open(job: Job, fail: (isRival: Boolean, problem: Problem) -> Unit) {
        // Memory first: a phone may hold one large model and not two.
        if (job.model == null || chosen?.fits(job.model, job) != true) chosen = chosen.closed()
        if (job.rival == null || rival?.fits(job.rival, job) != true) rival = rival.closed()
        if (job.model != null && chosen == null) {
            chosen = load(job.model, job, isRival = false, fail)
        }
        if (job.rival != null && rival == null) rival = load(job.rival, job, isRival = true, fail)
        listOpened()
    }

    /** The loaded models of the job that was opened last. */
    val opened: List<LoadedModel> get() = both

    fun close() {
        chosen = chosen.closed()
        rival = rival.closed()
        listOpened()
    }

    /** The bundle's files are other ones now. */
    fun forget(name: String) {
        if (chosen?.name == name) chosen = chosen.closed()
        if (rival?.name == name) rival = rival.closed()
        listOpened()
        read -= name
        hashed -= name
    }

    /** The user added or removed classes of the model in this bundle. */
    fun forgetClasses(bundle: Bundle) {
        val sha256 = bundle.description.sha256
        for (name in read.filterValues { it.description.sha256 == sha256 }.keys) {
            val isHashed = name in hashed
            forget(name)
            if (isHashed) hashed += name
        }
    }

    private fun listOpened() {
        both.clear()
        both += listOfNotNull(chosen, rival)
    }

    // Hashed when it is first wanted: all at the start would be seconds before the first answer.
    private fun model(bundle: Bundle): ByteBuffer {
        val files = bundles.files(bundle.name)
        val model =
            if (bundle.name in hashed) mapModel(files, bundle.description)
            else readModel(files, bundle.description)
        hashed += bundle.name
        return model
    }

    private fun load(
        name: String,
        job: Job,
        isRival: Boolean,
        fail: (isRival: Boolean, problem: Problem) -> Unit,
    ): LoadedModel? {
        val bundle: Bundle
        val model: ByteBuffer
        try {
            bundle = bundle(name)
            model = model(bundle)
        } catch (error: BundleException) {
            fail(isRival, Problem.BadBundle(name, error.problem))
            return null
        }
        return try {
            val engine = engines.create(model, EngineOptions(job.backend, job.threads))
            val classifier = Classifier(bundle, engine, SHOWN_CLASSES, clock)
            LoadedModel(classifier, job.backend, job.threads, isRival)
        } catch (error: EngineException) {
            fail(isRival, engineProblem(error, bundle, job.backend, engines.runtime))
            null
        } catch (error: OutOfMemoryError) {
            val failure = engineExceptionOf(error)
            fail(isRival, engineProblem(failure, bundle, job.backend, engines.runtime))
            null
        }
    }
}

/** A loaded model. */
internal class LoadedModel(
    private val classifier: Classifier,
    private val backend: Backend,
    private val threads: Int,
    val isRival: Boolean,
) {
    private val bundle = classifier.bundle
    val name: String get() = bundle.name

    fun fits(name: String, job: Job): Boolean =
        this.name == name && backend == job.backend && threads == job.threads

    private var last: Classification? = null

    fun run(image: RgbImage) {
        last = classifier.classify(image)
    }

    /** The features of an image. */
    fun featuresOf(image: RgbImage): FloatArray = classifier.classify(image).scores.copyOf()

    /** A copy of the last result, that of [image], for the screen. */
    fun answer(
        image: RgbImage,
        framesPerSecond: Double?,
        thumbnail: (GalleryPicture) -> Preview?,
    ) = Result.Answer(
        model = name,
        rows = checkNotNull(last).predictions(),
        info = classifier.engine.info,
        operators = bundle.description.operators,
        times = Times(
            classifier.inference.count,
            timeOf(classifier.preprocessing),
            timeOf(classifier.inference),
            timeOf(classifier.reading),
        ),
        similar = similar(thumbnail),
        patches = patches(image),
        mask = checkNotNull(last).mask(),
        framesPerSecond = framesPerSecond,
    )

    private fun similar(thumbnail: (GalleryPicture) -> Preview?): List<Similar>? {
        if (!bundle.description.output.givesFeatures) return null
        return checkNotNull(last).similar().map {
            Similar(it.picture.name, it.similarity, thumbnail(it.picture))
        }
    }

    private fun patches(image: RgbImage): Patches? {
        val colours = checkNotNull(last).patchColours() ?: return null
        val seen = CropBox(image.width, image.height, bundle.description.input)
        return Patches(colours, seen.run { (right - left) / (bottom - top) })
    }

    /** Times of one picture say nothing about another one's size. */
    fun forgetTimes() = classifier.forgetTimes()

    val isWarm: Boolean get() = classifier.isWarm

    fun problem(error: EngineException): Problem =
        engineProblem(error, bundle, backend, classifier.engine.info.runtime)

    fun close() = classifier.close()
}

private fun LoadedModel?.closed(): LoadedModel? {
    this?.close()
    return null
}

private fun timeOf(timings: Timings) = Time(timings.median(), timings.p90())

private fun engineProblem(
    error: EngineException,
    bundle: Bundle,
    backend: Backend,
    runtime: String,
) = Problem.EngineFailed(
    backend,
    error.kind,
    error.reason,
    bundle.description.runtimeFloor,
    runtime,
)

private const val SHOWN_CLASSES = 5
