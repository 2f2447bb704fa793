package dev.kerasvit.demo

import java.io.InputStream
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

/** What another app is asked for and does not give, as a download that stands still. */
class StalledStream : InputStream() {
    private val end = CountDownLatch(1)

    /** Zero as soon as somebody reads it. */
    val asked = CountDownLatch(1)

    @Volatile
    private var hasEnded = true

    override fun read(): Int {
        asked.countDown()
        hasEnded = end.await(1, TimeUnit.MINUTES) // A test that waits for it fails, but ends.
        return -1
    }

    /** Lets who still reads it go on. */
    fun end() {
        check(hasEnded) { "the test has waited for this stream" }
        end.countDown()
    }
}
