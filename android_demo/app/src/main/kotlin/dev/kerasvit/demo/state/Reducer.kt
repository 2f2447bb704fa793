package dev.kerasvit.demo.state

/** The state after an event. It has no effects: what is to be done follows from the new state. */
fun reduce(state: UiState, event: Event): UiState = after(state, event).withPicture()

private fun after(state: UiState, event: Event): UiState = when (event) {
    is Event.Show -> state.with { copy(screen = event.screen) }
    is Event.Back -> state.with { copy(screen = backFrom(this) ?: screen) }
    is Event.PickModel -> state.with {
        copy(screen = Screen.MODELS, pickingFrom = screen, pickingRival = event.rival)
    }
    is Event.ChooseModel -> chooseModel(state, event.name)
    is Event.ChooseSource -> chooseSource(state, event.source)
    is Event.ShowShared ->
        chooseSource(state.with { copy(screen = Screen.CLASSIFY) }, event.picture)
    is Event.ChooseBackend -> state.with { copy(backend = event.backend) }
    is Event.ChooseThreads -> state.with { copy(threads = event.threads) }
    is Event.ChooseThreshold -> chooseThreshold(state, event.percent)
    is Event.ChooseOpacity -> state.with { copy(opacity = event.percent) }
    is Event.Search -> state.with { copy(query = event.query) }
    is Event.ShowSettings -> state.copy(areSettingsShown = event.areShown)
    is Event.OfferZip -> state.copy(dialog = Dialog.Offered(event.uri))
    is Event.AddZip -> // The one worker is wanted here.
        state.copy(dialog = Dialog.Copying, verification = state.verification.stopped())
    is Event.Adding -> state.copy(dialog = Dialog.Adding)
    is Event.LookForPushed -> state
    is Event.OfferPushed -> state.copy(dialog = Dialog.OfferedPushed(event.zips))
    is Event.Added -> added(state, event.name)
    is Event.NotAdded -> state.copy(dialog = Dialog.NotAdded(event.problem))
    is Event.AskToRemove -> state.copy(dialog = Dialog.Removing(event.name))
    is Event.Remove -> state.changing(event.name).copy(dialog = null)
    is Event.NameClass -> state.copy(isNamingClass = event.isShown)
    is Event.AddPictures -> state.copy(
        dialog = Dialog.AddingPictures(0, event.uris.size),
        verification = state.verification.stopped(),
    )
    is Event.PicturesAdded ->
        if (state.dialog !is Dialog.AddingPictures) state
        else state.copy(dialog = state.dialog.copy(count = event.count))
    is Event.ClassesChanged -> state.changing(event.model).copy(dialog = null)
    is Event.AskToRemoveClass -> state.copy(dialog = Dialog.RemovingClass(event.name))
    is Event.CloseDialog, is Event.StopCopying, is Event.AddPushed, is Event.RefusePushed,
    is Event.StopAddingPictures, is Event.RemoveClass ->
        state.copy(dialog = null)
    is Event.Sleep -> state.copy(isAsleep = true, preview = null)
    is Event.Wake -> state.copy(isAsleep = false)
    is Event.Retry -> state.copy(attempt = state.attempt + 1, sourceProblem = null)
    is Event.Verify -> // Once, however often the button is touched before it is gone.
        if (state.verification.isRunning) state
        else state.copy(verification = state.verification.next(state.settings.model))
    is Event.StopVerifying -> state.copy(verification = state.verification.stopped())
    is Event.PermissionChanged -> permissionChanged(state, event.permission)
    is Event.CamerasFound -> camerasFound(state, event.cameras)
    is Event.CameraOpened -> state.copy(frame = event.frame)
    is Event.SourceFailed -> sourceFailed(state, event)
    is Event.Failed -> state.copy(sourceProblem = event.problem)
    is Event.ModelsListed -> modelsListed(state, event)
    is Event.ModelRead -> state.withModel(event.model.name) { event.model }
    is Event.SamplesRead -> state.withModel(event.model) { it.copy(samples = event.samples) }
    is Event.PictureRead ->
        if (event.source != state.settings.source) state
        else state.copy(preview = event.preview, sourceProblem = null)
    is Event.Classified -> classified(state, event)
    is Event.BackendVerified -> state.verifying(event.run) {
        copy(verdicts = verdicts + event.verdict)
    }
    is Event.VerificationEnded -> state.verifying(event.run) {
        copy(isRunning = false, report = event.report, problem = event.problem)
    }
}

/** The state in which [job] has just begun: old results would be read as its own. */
fun UiState.beginning(job: Job): UiState = copy(
    preview = if (job.source is Source.Camera) null else preview,
    result = if (job.model == null) Result.None else working(result),
    rivalResult = if (job.rival == null) Result.None else working(rivalResult),
)

private fun working(before: Result) = Result.Working(
    before as? Result.Answer ?: (before as? Result.Working)?.previous,
)

/** The screen that "back" shows; null if it leaves the app. */
fun backFrom(settings: Settings): Screen? = when (settings.screen) {
    Screen.CLASSIFY -> null
    Screen.MODELS -> settings.pickingFrom
    else -> Screen.CLASSIFY
}

private fun UiState.with(change: Settings.() -> Settings): UiState {
    val next = copy(settings = settings.change())
    // A verdict about another model, or with other threads, would be read as one about this.
    val isOld = next.settings.model != settings.model || next.settings.threads != settings.threads
    // The one worker is wanted elsewhere.
    val isLeft = verification.isRunning && next.settings.screen != settings.screen
    if (!isOld && !isLeft) return next
    return next.copy(verification = Verification(verification.run))
}

private fun chooseModel(state: UiState, name: String): UiState = state.with {
    val chosen = if (pickingRival) copy(rival = name) else copy(model = name)
    chosen.copy(screen = pickingFrom)
}

// One picture stays on the screen until the next one is read; the camera shows its own.
private fun chooseSource(state: UiState, wanted: Source): UiState {
    val source = existing(wanted, state.cameras.orEmpty())
    return state.with { copy(source = source) }.copy(
        sourceProblem = problemOf(state, source),
        preview = state.preview.takeUnless { source is Source.Camera },
        // What failed is wanted again.
        attempt = if (state.sourceProblem == null) state.attempt else state.attempt + 1,
    )
}

/** The other camera, where there is none on the side that is wanted. */
private fun existing(source: Source, cameras: List<Facing>): Source =
    if (source !is Source.Camera || source.facing in cameras) source
    else cameras.firstOrNull()?.let { Source.Camera(it) } ?: source

private fun problemOf(state: UiState, source: Source): Problem? = when {
    source !is Source.Camera -> null
    state.cameras?.isEmpty() == true -> Problem.NoCamera
    state.permission == Permission.REFUSED -> Problem.PermissionRefused(forEver = false)
    state.permission == Permission.REFUSED_FOR_EVER -> Problem.PermissionRefused(forEver = true)
    else -> null
}

private fun permissionChanged(state: UiState, permission: Permission): UiState {
    val next = state.copy(permission = permission)
    val source = state.settings.source as? Source.Camera ?: return next
    return next.copy(sourceProblem = problemOf(next, source))
}

private fun camerasFound(state: UiState, cameras: List<Facing>): UiState {
    val next = state.copy(cameras = cameras)
    val source = state.settings.source as? Source.Camera ?: return next
    if (cameras.isEmpty()) return next.copy(sourceProblem = Problem.NoCamera)
    return next.with { copy(source = existing(source, cameras)) }
}

private fun sourceFailed(state: UiState, event: Event.SourceFailed): UiState =
    if (event.source != state.settings.source) {
        state
    } else {
        state.copy(
            sourceProblem = event.problem,
            preview = null,
            result = Result.None,
            rivalResult = Result.None,
        )
    }

private fun modelsListed(state: UiState, event: Event.ModelsListed): UiState {
    val known = state.settings
    val model = known.model?.takeIf { it in event.models } ?: event.models.firstOrNull()
    // By default the comparison is with another model, where there is one.
    val rival = known.rival?.takeIf { it in event.models }
        ?: event.models.firstOrNull { it != model } ?: model
    return state.with { copy(model = model, rival = rival, source = source ?: Source.Golden) }
        .copy(models = event.models.map { Model(it, isAdded = it in event.added) })
}

/** A model was added: it is used at once, also where it replaced one of its name. */
private fun added(state: UiState, name: String): UiState {
    val isPicking = state.settings.screen == Screen.MODELS
    val chosen =
        if (isPicking) chooseModel(state, name)
        else state.with { copy(model = name, screen = Screen.CLASSIFY) }
    return chosen.changing(name).copy(dialog = null)
}

/** The model's files change: nothing may be computed with, or said of, the old ones any more. */
private fun UiState.changing(name: String): UiState = withModel(name) { Model(name) }.copy(
    attempt = attempt + 1,
    verification =
        if (verification.model == name) Verification(verification.run) else verification,
)

private fun UiState.withModel(name: String, change: (Model) -> Model): UiState =
    copy(models = models?.map { if (it.name == name) change(it) else it })

/** The model's own picture, where the chosen sample is another model's. */
private fun UiState.withPicture(): UiState {
    val sample = settings.source as? Source.Sample ?: return this
    val shown = pictured?.takeIf { it.bundle != null } ?: return this
    if (shown.samples.any { it.name == sample.name }) return this
    return with { copy(source = Source.Golden) }
}

private fun classified(state: UiState, event: Event.Classified): UiState {
    if (event.job != jobOf(state)) return state // The user has gone on.
    if (event.isRival) return state.copy(rivalResult = event.result)
    return state.copy(
        result = event.result,
        announcement = announcementOf(state, event.result, event.atMillis),
    )
}

// Another class may reach it, or none.
private fun chooseThreshold(state: UiState, percent: Int): UiState {
    val next = state.with { copy(threshold = percent) }
    val now = state.announcement?.atMillis ?: return next
    return next.copy(announcement = announcementOf(next, next.result, now))
}

// TalkBack must not talk all the time: of what the camera sees, another class is announced at most
// every two seconds.
private fun announcementOf(state: UiState, result: Result, atMillis: Long): Announcement? {
    val last = state.announcement
    val best = (result as? Result.Answer)?.rows?.firstOrNull() ?: return last
    val label = best.label.takeIf { best.isNamed(state.settings.threshold) }
    val isCamera = state.settings.source is Source.Camera
    val isTooSoon = isCamera && atMillis - (last?.atMillis ?: 0) < ANNOUNCEMENT_MILLIS
    if (last != null && (label == last.label || isTooSoon)) return last
    return Announcement(label, best.probability, atMillis)
}

private fun Verification.stopped() = copy(isRunning = false)

private fun Verification.next(model: String?) = Verification(run + 1, model, isRunning = true)

private fun UiState.verifying(run: Int, change: Verification.() -> Verification): UiState =
    if (verification.isRunning && verification.run == run) {
        copy(verification = verification.change())
    } else {
        this
    }

private const val ANNOUNCEMENT_MILLIS = 2000L
