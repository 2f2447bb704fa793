package dev.kerasvit.demo.state

import dev.kerasvit.demo.work.Frames
import dev.kerasvit.demo.work.Workshop

/**
 * The one owner of the state: events in, a new [UiState] out, work for the worker where the new
 * state asks for another [Job]. For the main thread.
 */
class Store(initial: UiState, makeWorkshop: (publish: (Event) -> Unit) -> Workshop) {
    var state: UiState = initial
        private set

    private val observers = LinkedHashSet<(UiState) -> Unit>()
    private val workshop = makeWorkshop(::send)
    private var job: Job? = null

    init {
        workshop.readModels()
    }

    /** Calls [observer] now and after each event, until [remove]. */
    fun observe(observer: (UiState) -> Unit) {
        observers.add(observer)
        observer(state)
    }

    fun remove(observer: (UiState) -> Unit) {
        observers.remove(observer)
    }

    fun send(event: Event) {
        val old = state
        val reduced = reduce(old, event)
        val wanted = jobOf(reduced)
        state = if (wanted == null || wanted == job) reduced else reduced.beginning(wanted)
        if (wanted != null && wanted != job) {
            job = wanted
            workshop.run(wanted)
        }
        if (state.isAsleep && !old.isAsleep) sleep()
        change(event)
        if (state.verification.isRunning != old.verification.isRunning) verifyOrStop()
        if (state != old) observers.toList().forEach { it(state) }
    }

    /** Where the camera's frames go. */
    val frames: Frames get() = workshop

    /** What an event changes beside the state. */
    private fun change(event: Event) = when (event) {
        is Event.Retry -> if (state.isReadingWanted) workshop.readModels() else Unit
        is Event.AddZip -> workshop.add(event.uri)
        is Event.StopCopying -> workshop.stopCopying()
        is Event.LookForPushed -> workshop.lookForPushed()
        is Event.AddPushed -> workshop.addPushed()
        is Event.RefusePushed -> workshop.removePushed()
        is Event.Remove -> workshop.remove(event.name)
        is Event.AddPictures -> addPictures(event)
        is Event.StopAddingPictures -> workshop.stopAddingPictures()
        is Event.RemoveClass ->
            state.settings.model?.let { workshop.removeClass(it, event.name) } ?: Unit
        else -> Unit
    }

    private fun addPictures(event: Event.AddPictures) {
        val (backend, threads) = state.settings.run { backend to threads }
        val model = state.settings.model ?: return
        val use = Job(Source.Golden, model, rival = null, backend, threads, state.attempt)
        workshop.addPictures(use, event.name, event.uris)
    }

    private fun sleep() {
        job = null // It is wanted again when the app wakes up.
        workshop.sleep()
    }

    private fun verifyOrStop() {
        val check = state.verification
        if (check.model == null || !check.isRunning) return workshop.stopVerifying()
        workshop.verify(check.run, check.model, state.settings.threads)
    }
}
