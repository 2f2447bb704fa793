package dev.kerasvit.engine

import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertSame

class EngineTest {
    @Test
    fun `what a runtime throws is told by its kind`() {
        val expected = mapOf(
            IllegalArgumentException(
                "Internal error: Cannot create interpreter: Didn't find op for builtin opcode " +
                    "'FULLY_CONNECTED' version '12'. An older version of this builtin might be " +
                    "supported. Are you using an old TFLite binary with a newer model?",
            ) to EngineFailure.TOO_OLD,
            IllegalStateException("Unsupported builtin opcode version") to EngineFailure.TOO_OLD,
            OutOfMemoryError("Failed to allocate 1234 bytes") to EngineFailure.OUT_OF_MEMORY,
            UnsatisfiedLinkError("dlopen failed: libOpenCL.so") to EngineFailure.UNAVAILABLE,
            NoClassDefFoundError("org/tensorflow/lite/GpuDelegate") to EngineFailure.UNAVAILABLE,
            IllegalStateException("Failed to allocate tensors") to EngineFailure.REFUSED,
        )
        for ((error, kind) in expected) {
            val typed = engineExceptionOf(error)
            assertEquals(kind, typed.kind, "$error")
            assertEquals(error.message, typed.reason)
            assertSame(error, typed.cause)
        }
    }

    @Test
    fun `an error without words is named`() {
        assertEquals("java.lang.OutOfMemoryError", engineExceptionOf(OutOfMemoryError()).reason)
        assertEquals("java.lang.RuntimeException", engineExceptionOf(RuntimeException(" ")).reason)
    }

    @Test
    fun `what the runtime says for each operator is told once`() {
        val message = "Failed to apply delegate: no\nno\nno\nno such file\nn"
        val reason = engineExceptionOf(IllegalArgumentException(message)).reason
        assertEquals("Failed to apply delegate: no\nno such file", reason)
    }

    @Test
    fun `a typed error stays as it is`() {
        val error = EngineException(EngineFailure.UNAVAILABLE, "no GPU")
        assertSame(error, engineExceptionOf(error))
    }
}
