package dev.kerasvit.demo

import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import java.util.concurrent.atomic.AtomicInteger

/** Real engines, of which it is known how many are open, and how many were at once. */
class CountedEngines(private val real: EngineFactory = jvmEngines()) : EngineFactory by real {
    val open = AtomicInteger()
    val most = AtomicInteger()
    var whenMade: () -> Unit = {}

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        val engine = real.create(model, options)
        most.accumulateAndGet(open.incrementAndGet(), ::maxOf)
        whenMade()
        return object : Engine by engine {
            override fun close() {
                open.decrementAndGet()
                engine.close()
            }
        }
    }
}
