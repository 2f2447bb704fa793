package dev.kerasvit.demo.engine

import dev.kerasvit.core.Backend
import dev.kerasvit.core.Engine
import dev.kerasvit.core.EngineException
import dev.kerasvit.core.EngineFactory
import dev.kerasvit.core.EngineFailure
import dev.kerasvit.core.EngineInfo
import dev.kerasvit.core.EngineOptions
import dev.kerasvit.core.engineExceptionOf
import dev.kerasvit.core.moveTo
import java.nio.ByteBuffer
import org.tensorflow.lite.Delegate
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.TensorFlowLite
import org.tensorflow.lite.executionSteps
import org.tensorflow.lite.gpu.GpuDelegate

/**
 * Engines of TensorFlow Lite, which is called LiteRT since 2024: both have `Interpreter`.
 *
 * The choice of the backend is strict. XNNPACK is always switched on or off explicitly, because the
 * runtime's default is to try it and to say nothing if that fails.
 */
class LiteRtEngines : EngineFactory {
    override val runtime: String by lazy {
        try {
            "TensorFlow Lite ${TensorFlowLite.runtimeVersion()}"
        } catch (error: LinkageError) {
            // Phones with processors that the app has no native library for.
            "TensorFlow Lite, not loaded: ${error.message}"
        }
    }

    override val backends: List<Backend> = Backend.values().toList()

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        var delegate: Delegate? = null
        try {
            if (options.backend == Backend.GPU) delegate = gpuDelegate()
            val interpreter = Interpreter(model, optionsOf(options, delegate))
            return LiteRtEngine(interpreter, delegate, options, runtime)
        } catch (error: Throwable) {
            delegate?.close()
            throw engineExceptionOf(error)
        }
    }
}

// With XNNPACK switched off, steps that the GPU leaves are visible and are not hidden in another
// delegate.
private fun optionsOf(options: EngineOptions, delegate: Delegate?): Interpreter.Options {
    val backend = options.backend
    val result = Interpreter.Options()
    result.setNumThreads(options.threads)
    result.setUseXNNPACK(backend == Backend.CPU || backend == Backend.CPU_HALF)
    // Deprecated without a replacement: the only way to half precision on the CPU from Java.
    @Suppress("DEPRECATION")
    result.setAllowFp16PrecisionForFp32(backend == Backend.CPU_HALF)
    if (delegate != null) result.addDelegate(delegate)
    return result
}

private fun gpuDelegate(): Delegate = try {
    GpuDelegate()
} catch (error: Throwable) {
    val reason = error.message ?: error.javaClass.name
    throw EngineException(EngineFailure.UNAVAILABLE, reason, error)
}

private class LiteRtEngine(
    private val interpreter: Interpreter,
    private val delegate: Delegate?,
    options: EngineOptions,
    runtime: String,
) : Engine {
    override val info =
        EngineInfo(options.backend, options.threads, runtime, executionSteps(interpreter))

    override fun run(input: ByteBuffer, output: ByteBuffer) {
        input.moveTo(0)
        output.moveTo(0)
        try {
            interpreter.run(input, output)
        } catch (error: Throwable) {
            throw engineExceptionOf(error)
        }
    }

    // The interpreter first: it still uses the delegate.
    override fun close() {
        interpreter.close()
        delegate?.close()
    }
}
