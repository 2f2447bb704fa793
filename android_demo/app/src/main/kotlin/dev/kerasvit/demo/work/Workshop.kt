package dev.kerasvit.demo.work

import android.net.Uri
import dev.kerasvit.android.PictureException
import dev.kerasvit.android.PictureFailure
import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.BundleException
import dev.kerasvit.core.Clock
import dev.kerasvit.core.Description
import dev.kerasvit.core.NewPicture
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.StoredClasses
import dev.kerasvit.core.report
import dev.kerasvit.core.verifyEach
import dev.kerasvit.demo.source.AddedBundles
import dev.kerasvit.demo.source.AddingException
import dev.kerasvit.demo.source.AllBundles
import dev.kerasvit.demo.source.Bundles
import dev.kerasvit.demo.source.Pictures
import dev.kerasvit.demo.source.Zip
import dev.kerasvit.demo.source.askWhile
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Job
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Sample
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import java.util.concurrent.Executor
import java.util.concurrent.atomic.AtomicInteger

/** Takes the frames of a camera, on the worker's thread. */
interface Frames {
    fun onFrame(image: RgbImage)
}

/**
 * All that takes time, on one worker thread: hashing, decoding, loading, computing.
 *
 * @param worker runs tasks one after the other, always on the same thread
 * @param publish takes events on any thread
 */
class Workshop(
    ofApp: Bundles,
    private val added: AddedBundles,
    private val classes: StoredClasses,
    private val pictures: Pictures,
    private val engines: EngineFactory,
    private val device: String,
    private val worker: Executor,
    private val clock: Clock,
    private val publish: (Event) -> Unit,
) : Frames {
    private val bundles = AllBundles(ofApp, added)
    private val models = LoadedModels(bundles, classes, engines, clock)
    private val newest = AtomicInteger()
    private val wantedCheck = AtomicInteger(NO_CHECK)
    private val newestZip = AtomicInteger()
    private val newestPictures = AtomicInteger()
    private val rate = FrameRate()
    private val decoded = HashMap<String, List<Sample>>()
    private var current: Job? = null // On the worker's thread; null while frames are not wanted.
    private var shownAtMillis = 0L

    /** Lists the models; then reads them one by one. */
    fun readModels() = execute({ Event.Failed(it) }, ::listModels)

    private fun listModels() {
        val names = bundles.names()
        val removable = added.names().toSet()
        publish(Event.ModelsListed(names, removable))
        for (name in names) {
            publish(Event.ModelRead(readModel(name).copy(isAdded = name in removable)))
        }
    }

    // When they are first shown: of all models, this would delay the first answer.
    private fun decodeSamples(name: String) {
        if (name in decoded) return
        val samples = pictures.samples(bundles.files(name))
        decoded[name] = samples
        publish(Event.SamplesRead(name, samples))
    }

    private fun forget(name: String) {
        models.forget(name)
        decoded -= name
    }

    /** Adds the model in the zip of a content URI, if there is one. */
    fun add(uri: String) {
        val ticket = newestZip.incrementAndGet()
        execute({ Event.NotAdded(it) }) {
            add { added.copy(Uri.parse(uri)) { ticket == newestZip.get() } }?.let(publish)
        }
    }

    /** Ends an [add] whose zip is still being copied. */
    fun stopCopying() {
        newestZip.incrementAndGet()
    }

    /** Adds what a computer pushed; asks first where it may have been another app. */
    fun lookForPushed() = execute({ Event.NotAdded(it) }) {
        val zips = added.pushed()
        if (added.arePushedTrusted) addAll(zips)
        else if (zips.isNotEmpty()) publish(Event.OfferPushed(zips.map { it.name }))
    }

    fun addPushed() = execute({ Event.NotAdded(it) }) { addAll(added.pushed()) }

    fun removePushed() = execute({ Event.NotAdded(it) }) {
        for (zip in added.pushed()) zip.file.delete()
    }

    private fun addAll(zips: List<Zip>) {
        val failures = zips.mapNotNull { add { it } }
        failures.forEach(publish) // A model that is added closes the dialog of an earlier failure.
    }

    /** What went wrong, if anything. */
    private fun add(copy: () -> Zip?): Event? {
        val name = try {
            val zip = copy() ?: return null
            publish(Event.Adding)
            added.add(zip)
        } catch (error: AddingException) {
            return Event.NotAdded(Problem.BadBundle(error.zip, error.problem))
        }
        forget(name)
        publish(Event.Added(name))
        listModels()
        return null
    }

    /** Also what was added to the model, unless another bundle has the same one. */
    fun remove(name: String) = execute({ Event.Failed(it) }) {
        val removed = descriptionOf(name)
        forget(name)
        added.remove(name)
        val isGone = bundles.names().none { descriptionOf(it)?.sha256 == removed?.sha256 }
        if (removed != null && isGone) classes.remove(removed)
        listModels()
    }

    private fun descriptionOf(name: String): Description? = try {
        models.bundle(name).description
    } catch (_: BundleException) {
        null
    }

    /**
     * Adds pictures to a class of a model, all that can be read of them.
     *
     * @param use the model, and what it shall run on
     */
    fun addPictures(use: Job, name: String, uris: List<String>) {
        val ticket = newestPictures.incrementAndGet()
        execute({ Event.NotAdded(it) }) {
            try {
                addPictures(use, name, uris) { ticket == newestPictures.get() }
            } catch (error: EngineException) {
                val problem = models.opened.firstOrNull()?.problem(error)
                publish(Event.NotAdded(problem ?: Problem.Unexpected(error.toString())))
            } finally {
                current?.let(::open) // The camera's frames need it.
            }
        }
    }

    /** Ends [addPictures]: nothing is added. */
    fun stopAddingPictures() {
        newestPictures.incrementAndGet()
    }

    private fun addPictures(
        use: Job,
        name: String,
        uris: List<String>,
        isWanted: () -> Boolean,
    ) {
        if (!isWanted()) return
        models.open(use) { _, problem -> publish(Event.NotAdded(problem)) }
        val model = models.opened.singleOrNull() ?: return
        val bundle = models.bundle(model.name)
        val found = ArrayList<NewPicture>()
        for ((i, uri) in uris.withIndex()) {
            val image = try {
                askWhile(isWanted) { pictures.read(uri) } ?: return
            } catch (_: PictureException) {
                null
            }
            if (image != null) newPicture(model, image)?.let { found += it }
            publish(Event.PicturesAdded(i + 1))
        }
        if (!isWanted()) return
        classes.add(bundle.description, name, found)
        tellClasses(bundle)
        if (found.isEmpty()) publish(Event.NotAdded(Problem.PictureUnreadable))
        else if (found.size < uris.size) {
            publish(Event.NotAdded(Problem.PicturesSkipped(uris.size - found.size)))
        }
    }

    /** Null where the features are all zero. */
    private fun newPicture(model: LoadedModel, image: RgbImage): NewPicture? =
        NewPicture.of(model.featuresOf(image), pictures.thumbnail(image))

    /** Removes what the user added to a class. */
    fun removeClass(model: String, name: String) = execute({ Event.NotAdded(it) }) {
        val bundle = models.bundle(model)
        classes.remove(bundle.description, name)
        tellClasses(bundle)
    }

    private fun tellClasses(bundle: Bundle) {
        models.forgetClasses(bundle)
        publish(Event.ClassesChanged(bundle.name))
        listModels()
    }

    /** Computes a job, unless a newer one comes first. */
    fun run(job: Job) {
        val ticket = newest.incrementAndGet()
        execute({ Event.Failed(it) }) { if (ticket == newest.get()) start(job, ticket) }
    }

    /** Gives the memory of models back, until the next job. */
    fun sleep() {
        newest.incrementAndGet()
        execute({ Event.Failed(it) }) {
            current = null
            models.close()
        }
    }

    /** The golden check on each backend, one after the other, until the next one or a stop. */
    fun verify(run: Int, model: String, threads: Int) {
        wantedCheck.set(run)
        execute({ Event.VerificationEnded(run, problem = it) }) {
            try {
                verifyAll(run, model, threads)
            } catch (error: BundleException) {
                val problem = Problem.BadBundle(model, error.problem)
                publish(Event.VerificationEnded(run, problem = problem))
            } finally {
                current?.let(::open) // The camera's frames need it.
            }
        }
    }

    /** Ends a check after the backend at which it is. */
    fun stopVerifying() = wantedCheck.set(NO_CHECK)

    // The screen is written to a few times a second, however fast the model is: numbers that
    // change at each frame cannot be read.
    override fun onFrame(image: RgbImage) {
        val job = current ?: return
        val now = nowMillis()
        val isShown = now - shownAtMillis >= SHOWN_EVERY_MILLIS
        if (isShown) shownAtMillis = now
        // By index: an iterator would be an allocation for each frame.
        for (i in models.opened.indices) models.opened[i].classify(image, job, isShown)
        rate.add(nowMillis())
    }

    // A mistake in the app, or a surprise of a phone, becomes a message that can be reported.
    private fun execute(failed: (Problem) -> Event, task: () -> Unit) = worker.execute {
        try {
            task()
        } catch (error: Exception) {
            publish(failed(Problem.Unexpected(error.toString())))
        } catch (_: OutOfMemoryError) {
            publish(failed(Problem.OutOfMemory))
        }
    }

    private fun readModel(name: String): Model = try {
        val samples = decoded[name] ?: bundles.files(name).samples().map { Sample(it) }
        val bundle = models.bundle(name)
        Model(name, bundle, samples = samples, addedPictures = models.addedPictures(name))
    } catch (error: BundleException) {
        Model(name, problem = Problem.BadBundle(name, error.problem))
    } catch (error: Exception) {
        Model(name, problem = Problem.Unexpected(error.toString()))
    } catch (_: OutOfMemoryError) {
        Model(name, problem = Problem.OutOfMemory)
    }

    private fun start(job: Job, ticket: Int) {
        current = null
        try {
            open(job)
            decodeSamples(job.pictured)
            if (job.source is Source.Camera) {
                for (model in models.opened) model.forgetTimes()
                rate.forget()
                current = job
            } else {
                classifyPicture(job, ticket)
            }
        } catch (error: OutOfMemoryError) {
            models.close()
            publish(Event.SourceFailed(job.source, Problem.OutOfMemory))
        }
    }

    private fun open(job: Job) =
        models.open(job) { isRival, problem -> fail(job, isRival, problem) }

    private fun classifyPicture(job: Job, ticket: Int) {
        val image = try {
            readPicture(job, ticket) ?: return
        } catch (error: PictureException) {
            publish(Event.SourceFailed(job.source, problemOf(error.failure)))
            return
        } catch (error: BundleException) {
            val problem = Problem.BadBundle(job.pictured, error.problem)
            publish(Event.SourceFailed(job.source, problem))
            return
        }
        publish(Event.PictureRead(job.source, pictures.preview(image)))
        val open = models.opened
        for (model in open) model.forgetTimes()
        for (model in open) model.classify(image, job, isShown = true)
        repeat(image, open, job) { ticket == newest.get() }
    }

    /** Null for another app's picture, if a newer job came before that app answered. */
    private fun readPicture(job: Job, ticket: Int): RgbImage? = when (job.source) {
        is Source.Golden -> models.goldenImage(job.pictured)
        is Source.Picture -> askWhile({ ticket == newest.get() }) {
            pictures.read(job.source, bundles.files(job.pictured))
        }
        else -> pictures.read(job.source, bundles.files(job.pictured))
    }

    // One run tells nothing about speed, and a slow model must not be repeated for minutes. Models
    // take turns, so that a warm phone slows both.
    private fun repeat(
        image: RgbImage,
        open: List<LoadedModel>,
        job: Job,
        isWanted: () -> Boolean,
    ) {
        val end = nowMillis() + REPEAT_MILLIS
        var runs = 1
        while (isWanted() && runs < MOST_RUNS) {
            val isWarmingUp = runs < LONGEST_WARM_UP && open.any { !it.isWarm }
            if (!isWarmingUp && nowMillis() >= end) break
            for (model in open) model.classify(image, job, isShown = false)
            runs++
        }
        if (isWanted()) for (model in open) model.classify(image, job, isShown = true)
    }

    private fun LoadedModel.classify(image: RgbImage, job: Job, isShown: Boolean) {
        try {
            run(image)
            if (!isShown) return
            val perSecond = rate.perSecond.takeIf { job.source is Source.Camera && !it.isNaN() }
            val answer = answer(image, perSecond, pictures::thumbnail)
            publish(Event.Classified(job, isRival, answer, nowMillis()))
        } catch (error: EngineException) {
            fail(job, isRival, problem(error))
        }
    }

    private fun nowMillis(): Long = clock.nanos() / 1_000_000

    private fun fail(job: Job, isRival: Boolean, problem: Problem) =
        publish(Event.Classified(job, isRival, Result.Failed(problem), nowMillis()))

    private fun verifyAll(run: Int, model: String, threads: Int) {
        if (run != wantedCheck.get()) return
        val bundle = models.bundle(model)
        models.close() // A phone may have no memory for the model a second time.
        val all = ArrayList<BackendVerdict>()
        for (verdict in verifyEach(bundles.files(model), bundle, engines, threads = threads)) {
            publish(Event.BackendVerified(run, verdict))
            all += verdict
            if (run != wantedCheck.get()) return
        }
        val report = report(device, engines.runtime, bundle, all)
        publish(Event.VerificationEnded(run, report))
    }
}

private fun problemOf(failure: PictureFailure): Problem = when (failure) {
    PictureFailure.GONE -> Problem.PictureGone
    PictureFailure.UNREADABLE -> Problem.PictureUnreadable
}

private const val NO_CHECK = 0
private const val SHOWN_EVERY_MILLIS = 200L
private const val REPEAT_MILLIS = 700L
// All without the last run, which is shown: a slow model runs three times, the first of which is its
// warm-up; a fast one has a warm-up of three runs and twenty that count.
private const val LONGEST_WARM_UP = 3
private const val MOST_RUNS = 22
