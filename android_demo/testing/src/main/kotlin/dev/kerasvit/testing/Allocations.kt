package dev.kerasvit.testing

import com.sun.management.ThreadMXBean
import java.lang.management.ManagementFactory

/** How many bytes this thread allocates in [block], without those of the measuring itself. */
fun allocatedBy(block: () -> Unit): Long {
    measured {} // the first measuring loads classes
    val empty = measured {}
    return measured(block) - empty
}

/** What calling LiteRT allocates: a copy of the arguments, and the status. */
const val LITERT_BYTES_PER_RUN = 56L

private fun measured(block: () -> Unit): Long {
    val before = threads.getThreadAllocatedBytes(Thread.currentThread().id)
    block()
    return threads.getThreadAllocatedBytes(Thread.currentThread().id) - before
}

private val threads = ManagementFactory.getThreadMXBean() as ThreadMXBean
