package dev.kerasvit.demo.source

import java.util.concurrent.ExecutionException
import java.util.concurrent.FutureTask
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import kotlin.concurrent.thread

/**
 * Asks another app for something, on a thread of its own: one that downloads may take long, or
 * never answer, and the worker has other things to do.
 *
 * @return null as soon as [isWanted] says no; what is read then is lost
 */
internal fun <T : Any> askWhile(isWanted: () -> Boolean, ask: () -> T): T? {
    val answer = FutureTask(ask)
    thread(isDaemon = true, name = "asking", block = answer::run)
    while (isWanted()) {
        try {
            return answer.get(LOOK_MILLIS, TimeUnit.MILLISECONDS)
        } catch (_: TimeoutException) {
            continue
        } catch (error: ExecutionException) {
            throw error.cause ?: error
        }
    }
    answer.cancel(true)
    return null
}

private const val LOOK_MILLIS = 50L
