package dev.kerasvit.demo.work

/** How many frames end in a second; allocates nothing. */
internal class FrameRate {
    private var beginMillis = NONE
    private var frames = 0

    /** Over the last second or longer, if a frame takes longer; NaN until it is known. */
    var perSecond = Double.NaN
        private set

    /** A frame has ended. */
    fun add(nowMillis: Long) {
        if (beginMillis == NONE) {
            beginMillis = nowMillis
            return
        }
        frames++
        val millis = nowMillis - beginMillis
        if (millis < LEAST_MILLIS) return
        perSecond = frames * 1000.0 / millis
        beginMillis = nowMillis
        frames = 0
    }

    fun forget() {
        beginMillis = NONE
        frames = 0
        perSecond = Double.NaN
    }
}

private const val NONE = -1L
private const val LEAST_MILLIS = 1000L
