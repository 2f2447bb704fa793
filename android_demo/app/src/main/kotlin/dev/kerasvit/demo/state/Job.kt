package dev.kerasvit.demo.state

import dev.kerasvit.core.Backend

/** What the worker shall compute. Two equal jobs have the same results. */
data class Job(
    val source: Source,
    val model: String,
    val rival: String?,
    val backend: Backend,
    val threads: Int,
    val attempt: Int,
)

/** The job that a state asks for; null if nothing is to be computed now. */
fun jobOf(state: UiState): Job? {
    val settings = state.settings
    val isComparing = settings.screen == Screen.COMPARE
    if (settings.screen != Screen.CLASSIFY && !isComparing) return null
    val source = settings.source ?: return null
    if (source is Source.Camera && state.permission != Permission.GRANTED) return null
    val model = state.model?.takeIf { it.bundle != null } ?: return null
    val rival = if (isComparing) state.rival?.takeIf { it.bundle != null } else null
    return Job(source, model.name, rival?.name, settings.backend, settings.threads, state.attempt)
}
