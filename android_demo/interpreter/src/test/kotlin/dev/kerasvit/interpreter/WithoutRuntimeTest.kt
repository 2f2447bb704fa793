package dev.kerasvit.interpreter

import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.testing.directBuffer
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertTrue

/** A JVM has no library of Android: as a phone whose processor the app was not built for. */
class WithoutRuntimeTest {
    @Test
    fun `without its native library every backend says so, and nothing crashes`() {
        val engines = InterpreterEngines()
        assertTrue("not loaded" in engines.runtime, engines.runtime)
        for (backend in engines.backends) {
            val error = assertFailsWith<EngineException> {
                engines.create(directBuffer(1000), EngineOptions(backend, 2))
            }
            assertEquals(EngineFailure.UNAVAILABLE, error.kind, error.reason)
        }
    }
}
