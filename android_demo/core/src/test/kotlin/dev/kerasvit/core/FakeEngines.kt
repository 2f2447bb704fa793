package dev.kerasvit.core

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer

/** The int8 scores that [FakeEngine] gives, or as many of them as a bundle has classes. */
val fakeScores: List<Byte> = listOf(4, 20, -7)

/** An engine whose scores are known; [change] disturbs them. */
class FakeEngine(
    override val info: EngineInfo,
    private val change: (ByteBuffer) -> Unit = {},
) : Engine {
    var isClosed = false
        private set

    override fun run(input: ByteBuffer, output: ByteBuffer) {
        check(!isClosed) { "closed" }
        for (i in 0 until minOf(output.capacity(), fakeScores.size)) output.put(i, fakeScores[i])
        change(output)
    }

    override fun close() {
        isClosed = true
    }
}

/** Makes fake engines; [make] may throw instead. */
class FakeFactory(
    override val backends: List<Backend> = Backend.values().toList(),
    private val make: (EngineInfo) -> FakeEngine = { FakeEngine(it) },
) : EngineFactory {
    val made = mutableListOf<FakeEngine>()
    val models = mutableListOf<ByteBuffer>()

    override val runtime = "Fake 1.0"

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        models += model
        return make(EngineInfo(options.backend, options.threads, runtime, 1)).also { made += it }
    }
}
