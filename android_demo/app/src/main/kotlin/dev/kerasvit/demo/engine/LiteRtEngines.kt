package dev.kerasvit.demo.engine

import com.sun.jna.NativeLibrary
import dev.kerasvit.core.Backend
import dev.kerasvit.core.Engine
import dev.kerasvit.core.EngineException
import dev.kerasvit.core.EngineFactory
import dev.kerasvit.core.EngineFailure
import dev.kerasvit.core.EngineInfo
import dev.kerasvit.core.EngineOptions
import dev.kerasvit.core.engineExceptionOf
import dev.kerasvit.core.moveTo
import dev.kerasvit.delegate.DelegateWatch
import dev.kerasvit.delegate.Xnnpack
import dev.kerasvit.delegate.privateLibrary
import java.nio.ByteBuffer
import org.tensorflow.lite.Delegate
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.TensorFlowLite
import org.tensorflow.lite.gpu.GpuDelegate

/**
 * Engines of TensorFlow Lite, which is called LiteRT since 2024: both have `Interpreter`.
 *
 * The choice of the backend is strict. The interpreter's own switch would try XNNPACK, say nothing
 * if that fails, and ignore half precision; so the app makes the delegate itself.
 *
 * @param library the native library of the runtime, with its C functions
 */
class LiteRtEngines(private val library: () -> NativeLibrary = ::nativeLibrary) : EngineFactory {
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
        var delegate: WatchedDelegate? = null
        var interpreter: Interpreter? = null
        try {
            delegate = delegateOf(options, library)
            interpreter = Interpreter(model, optionsOf(options, delegate))
            return LiteRtEngine(interpreter, delegate, options, runtime)
        } catch (error: Throwable) {
            interpreter?.close()
            delegate?.close()
            throw engineExceptionOf(error)
        }
    }
}

private fun delegateOf(options: EngineOptions, library: () -> NativeLibrary): WatchedDelegate? =
    when (options.backend) {
        Backend.CPU_PLAIN -> null
        Backend.CPU -> try {
            xnnpack(library(), options)
        } catch (_: LinkageError) {
            null // A build of the runtime without the C functions: its own switch must do.
        }
        Backend.CPU_HALF -> xnnpack(library(), options)
        Backend.GPU -> gpuDelegate().let { WatchedDelegate("GPU", it.nativeHandle, it) }
    }

private fun xnnpack(library: NativeLibrary, options: EngineOptions): WatchedDelegate {
    val isHalf = options.backend == Backend.CPU_HALF
    val xnnpack = Xnnpack(library, options.threads, isHalf)
    return WatchedDelegate("XNNPACK", xnnpack.address, xnnpack)
}

private fun nativeLibrary(): NativeLibrary {
    TensorFlowLite.init() // Loads it, or says why not.
    return privateLibrary("tensorflowlite_jni")
}

private fun gpuDelegate(): Delegate = try {
    GpuDelegate()
} catch (error: Throwable) {
    val reason = error.message ?: error.javaClass.name
    throw EngineException(EngineFailure.UNAVAILABLE, reason, error)
}

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
    val name: String,
    private val handle: Long,
    private val owner: AutoCloseable,
) : Delegate {
    val watch = DelegateWatch(handle)

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
        taken = delegate?.let { it.watch.taken(it.name) },
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
