package dev.kerasvit.android

import com.sun.jna.NativeLibrary
import dev.kerasvit.core.moveTo
import dev.kerasvit.delegate.DelegateWatch
import dev.kerasvit.delegate.Xnnpack
import dev.kerasvit.delegate.privateLibrary
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import java.nio.ByteBuffer
import org.tensorflow.lite.Delegate
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.TensorFlowLite
import org.tensorflow.lite.gpu.GpuDelegate

/**
 * Engines of TensorFlow Lite, which is called LiteRT since 2024: both have `Interpreter`.
 *
 * The choice of the backend is strict. The interpreter's own switch would try XNNPACK, say nothing
 * if that fails, and ignore half precision; so the delegate is made here, through the runtime's C
 * functions. In another version than the tested one their structures may differ, and a wrong one
 * ends the process without a message: there the switch is used, nobody knows how much XNNPACK took,
 * and half precision is not available.
 *
 * @param version of the runtime
 */
class LiteRtEngines(private val version: () -> String = TensorFlowLite::runtimeVersion) :
    EngineFactory {
    override val runtime: String by lazy {
        try {
            "TensorFlow Lite ${version()}"
        } catch (error: LinkageError) {
            // Phones with processors that the app has no native library for.
            "TensorFlow Lite, not loaded: ${error.message}"
        }
    }

    override val backends: List<Backend> = Backend.values().toList()

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        var delegate: WatchedDelegate? = null
        var interpreter: Interpreter? = null
        try {
            delegate = delegateOf(options, version())
            interpreter = Interpreter(model, optionsOf(options, delegate))
            return LiteRtEngine(interpreter, delegate, options, runtime)
        } catch (error: Throwable) {
            interpreter?.close()
            delegate?.close()
            throw engineExceptionOf(error)
        }
    }
}

private fun delegateOf(options: EngineOptions, version: String): WatchedDelegate? {
    val isTested = version == TESTED_VERSION
    return when (options.backend) {
        Backend.CPU_PLAIN -> null
        Backend.CPU -> if (isTested) xnnpack(nativeLibrary(), options) else null
        Backend.CPU_HALF -> {
            if (!isTested) {
                throw unavailable("it needs the tested version, $TESTED_VERSION. Received: $version.")
            }
            xnnpack(nativeLibrary(), options)
        }
        Backend.GPU -> gpuDelegate().let { WatchedDelegate("GPU", it.nativeHandle, it, isTested) }
    }
}

private fun xnnpack(library: NativeLibrary, options: EngineOptions): WatchedDelegate {
    val isHalf = options.backend == Backend.CPU_HALF
    val xnnpack = Xnnpack(library, options.threads, isHalf)
    return WatchedDelegate("XNNPACK", xnnpack.address, xnnpack, isTested = true)
}

private fun nativeLibrary(): NativeLibrary {
    TensorFlowLite.init() // Loads it, or says why not.
    return privateLibrary("tensorflowlite_jni")
}

private fun gpuDelegate(): Delegate = try {
    GpuDelegate()
} catch (error: Throwable) {
    throw unavailable(error.message ?: error.javaClass.name, error)
}

private fun unavailable(reason: String, cause: Throwable? = null) =
    EngineException(EngineFailure.UNAVAILABLE, reason, cause)

// The switch is off where there is a delegate: XNNPACK must not take what the GPU leaves.
private fun optionsOf(options: EngineOptions, delegate: Delegate?): Interpreter.Options {
    val result = Interpreter.Options()
    result.setNumThreads(options.threads)
    result.setUseXNNPACK(options.backend == Backend.CPU && delegate == null)
    if (delegate != null) result.addDelegate(delegate)
    return result
}

/** A delegate that is asked how much of the model it took. */
private class WatchedDelegate(
    private val name: String,
    private val handle: Long,
    private val owner: AutoCloseable,
    isTested: Boolean,
) : Delegate {
    private val watch = if (isTested) DelegateWatch(handle) else null

    /** How many operators it took; null if unknown. */
    val taken: Int? get() = watch?.taken(name)

    override fun getNativeHandle(): Long = handle

    override fun close() = owner.close()
}

private class LiteRtEngine(
    private val interpreter: Interpreter,
    private val delegate: WatchedDelegate?,
    options: EngineOptions,
    runtime: String,
) : Engine {
    override val info = EngineInfo(
        options.backend,
        options.threads,
        runtime,
        taken = delegate?.taken,
    )

    // `Interpreter.run` would make both anew for each image.
    private val inputs = arrayOfNulls<Any>(1)
    private val outputs = HashMap<Int, Any>(1)

    override fun run(input: ByteBuffer, output: ByteBuffer) {
        input.moveTo(0)
        output.moveTo(0)
        inputs[0] = input
        outputs[0] = output
        try {
            interpreter.runForMultipleInputsOutputs(inputs, outputs)
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

private const val TESTED_VERSION = "2.16.1"
