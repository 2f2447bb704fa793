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
        workshop.readAssets()
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
        // Another job: old results would be read as its own.
        state = if (wanted == null || wanted == job) reduced else reduced.starting(wanted)
        if (wanted != null && wanted != job) {
            job = wanted
            workshop.run(wanted)
        }
        if (event is Event.Retry && state.isReadingWanted) workshop.readAssets()
        if (state.verification.isRunning != old.verification.isRunning) verifyOrStop()
        if (state != old) observers.toList().forEach { it(state) }
    }

    /** Where the camera's frames go. */
    val frames: Frames get() = workshop

    private fun UiState.starting(next: Job): UiState = copy(
        preview = if (next.source is Source.Camera) null else preview,
        result = if (next.model == null) Result.None else Result.Working,
        rivalResult = if (next.rival == null) Result.None else Result.Working,
    )

    private fun verifyOrStop() {
        val check = state.verification
        if (check.model == null || !check.isRunning) return workshop.stopVerifying()
        workshop.verify(check.run, check.model, state.settings.threads)
    }
}
