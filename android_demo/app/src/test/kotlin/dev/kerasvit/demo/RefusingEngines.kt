package dev.kerasvit.demo

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer

/** A real interpreter, on a phone whose [backend] refuses. */
class RefusingEngines(
    private val backend: Backend,
    private val kind: EngineFailure,
    private val reason: String,
    private val real: EngineFactory = jvmEngines(),
) : EngineFactory by real {
    override val backends: List<Backend> = Backend.values().toList()

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        if (options.backend == backend) throw EngineException(kind, reason)
        return real.create(model, options)
    }
}
