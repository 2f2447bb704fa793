package dev.kerasvit.demo

import dev.kerasvit.core.Backend
import dev.kerasvit.core.Engine
import dev.kerasvit.core.EngineException
import dev.kerasvit.core.EngineFactory
import dev.kerasvit.core.EngineFailure
import dev.kerasvit.core.EngineOptions
import dev.kerasvit.jvm.JvmEngines
import java.nio.ByteBuffer

/** A real interpreter, on a phone whose [backend] refuses. */
class RefusingEngines(
    private val backend: Backend,
    private val kind: EngineFailure,
    private val reason: String,
    private val real: EngineFactory = JvmEngines(),
) : EngineFactory by real {
    override val backends: List<Backend> = Backend.values().toList()

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        if (options.backend == backend) throw EngineException(kind, reason)
        return real.create(model, options)
    }
}
