package dev.kerasvit.jvm

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import java.nio.ByteBuffer
import org.bytedeco.tensorflowlite.global.tensorflowlite.TfLiteVersion

/** Engines of the real TensorFlow Lite on the JVM (Linux, x86-64), for tests. */
class JvmEngines : EngineFactory {
    override val runtime = "TensorFlow Lite ${TfLiteVersion().string}"
    override val backends = listOf(Backend.CPU, Backend.CPU_HALF, Backend.CPU_PLAIN)

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        if (options.backend !in backends) {
            val reason = "$runtime on the JVM has no ${options.backend}"
            throw EngineException(EngineFailure.UNAVAILABLE, reason)
        }
        val messages = Messages()
        try {
            return messages.during { JvmEngine(model, options, runtime) }
        } catch (error: IllegalStateException) {
            // The runtime only returns a status; the reason is what it printed.
            val reason = messages.errors.ifEmpty { listOf(error.message) }.joinToString(" ")
            throw engineExceptionOf(IllegalStateException(reason, error))
        }
    }
}

private class JvmEngine(model: ByteBuffer, options: EngineOptions, runtime: String) : Engine {
    private val interpreter = JvmInterpreter(model, options)

    override val info = EngineInfo(options.backend, options.threads, runtime, interpreter.taken)

    override fun run(input: ByteBuffer, output: ByteBuffer) {
        copy(input, interpreter.input)
        interpreter.invoke()
        copy(interpreter.output, output)
    }

    override fun close() = interpreter.close()

    private fun copy(from: ByteBuffer, to: ByteBuffer) {
        if (from.capacity() != to.capacity()) {
            throw EngineException(
                EngineFailure.REFUSED,
                "the model's tensors have ${interpreter.input.capacity()} and " +
                    "${interpreter.output.capacity()} bytes. Received: ${from.capacity()} " +
                    "for ${to.capacity()}.",
            )
        }
        from.clear()
        to.clear()
        to.put(from)
        from.clear()
        to.clear()
    }
}
