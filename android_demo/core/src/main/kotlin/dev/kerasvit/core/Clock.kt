package dev.kerasvit.core

/** Tells nanoseconds, as [System.nanoTime] does; tests have clocks of their own. */
fun interface Clock {
    fun nanos(): Long
}
