package dev.kerasvit.demo

import dev.kerasvit.android.LiteRtEngines
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** A JVM has no library of Android: as a phone whose processor the app was not built for. */
@RunWith(RobolectricTestRunner::class)
class LiteRtEnginesTest {
    @Test
    fun `without its native library every backend says so, and nothing crashes`() {
        val engines = LiteRtEngines()
        assertTrue("not loaded" in engines.runtime, engines.runtime)
        for (backend in Backend.values()) {
            val error = assertFailsWith<EngineException> {
                engines.create(ByteBuffer.allocateDirect(1000), EngineOptions(backend, 2))
            }
            assertEquals(EngineFailure.UNAVAILABLE, error.kind, error.reason)
        }
    }
}
