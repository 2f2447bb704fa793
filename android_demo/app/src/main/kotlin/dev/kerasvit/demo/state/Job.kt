package dev.kerasvit.demo.state

import dev.kerasvit.engine.Backend

/**
 * What the worker shall compute. Two equal jobs have the same results.
 *
 * @property model null where the chosen one is damaged; then there is a [rival]
 * @property rival null unless two models are compared, and where this one is damaged
 */
data class Job(
    val source: Source,
    val model: String?,
    val rival: String?,
    val backend: Backend,
    val threads: Int,
    val attempt: Int,
) {
    /** The model whose picture [Source.Golden] is. */
    val pictured: String get() = checkNotNull(model ?: rival)
}

/** The job that a state asks for; null if nothing is to be computed now. */
fun jobOf(state: UiState): Job? {
    val settings = state.settings
    if (state.isAsleep) return null
    val isComparing = settings.screen == Screen.COMPARE
    if (settings.screen != Screen.CLASSIFY && !isComparing) return null
    val source = settings.source ?: return null
    if (source is Source.Camera && state.permission != Permission.GRANTED) return null
    // The rival does not begin while the chosen model is being read, but does where it is damaged.
    val isRead = state.model?.run { bundle != null || problem != null } ?: false
    if (!isRead) return null
    val model = state.model?.takeIf { it.bundle != null }?.name
    val rival = if (isComparing) state.rival?.takeIf { it.bundle != null }?.name else null
    if (model == null && rival == null) return null
    return Job(source, model, rival, settings.backend, settings.threads, state.attempt)
}
