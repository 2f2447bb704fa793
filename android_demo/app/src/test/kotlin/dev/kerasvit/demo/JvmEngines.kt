package dev.kerasvit.demo

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.litert.CompiledModelEngines

/** LiteRT on this computer's CPU. */
fun jvmEngines(): EngineFactory {
    val engines = CompiledModelEngines()
    return object : EngineFactory by engines {
        override val backends = listOf(Backend.CPU, Backend.CPU_HALF, Backend.CPU_PLAIN)
    }
}
