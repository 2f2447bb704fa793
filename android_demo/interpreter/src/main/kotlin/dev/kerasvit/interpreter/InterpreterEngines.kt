package dev.kerasvit.interpreter

import com.sun.jna.NativeLibrary
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import dev.kerasvit.litert.privateLibrary
import java.nio.ByteBuffer
import org.tensorflow.lite.Delegate
import org.tensorflow.lite.Interpreter
import org.tensorflow.lite.TensorFlowLite
import org.tensorflow.lite.gpu.GpuDelegate

/**
 * Engines of TensorFlow Lite 2.16.1, the last one on Maven Central.
 *
 * The choice of the backend is strict. The interpreter's own switch would try XNNPACK, say nothing
 * if that fails, and ignore half precision; so the delegate is made here, through the runtime's C
 * functions. In another version their structures may differ, and a wrong one ends the process
 * without a message: there only the runtime's own kernels are available.
 *
 * @param version of the runtime
 */
class InterpreterEngines(private val version: () -> String = TensorFlowLite::runtimeVersion) :
    EngineFactory {
    override val runtime: String by lazy {
        try {
            "TensorFlow Lite ${version()}"
        } catch (error: LinkageError) {
            // Phones with processors that the app has no native library for.
            "TensorFlow Lite, not loaded: ${error.message}"
        }
    }

    override val backends: List<Backend> = Backend.values().toList() - Backend.NPU

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        var delegate: WatchedDelegate? = null
        var interpreter: Interpreter? = null
        try {
            delegate = delegateOf(options, version())
            interpreter = Interpreter(model, optionsOf(options, delegate))
            return InterpreterEngine(interpreter, delegate, options, runtime)
        } catch (error: Throwable) {
            interpreter?.close()
            delegate?.close()
            throw engineExceptionOf(error)
        }
    }
}

private fun delegateOf(options: EngineOptions, version: String): WatchedDelegate? {
    if (options.backend == Backend.CPU_PLAIN) return null
    if (version != TESTED_VERSION) {
        throw unavailable("it needs the tested version, $TESTED_VERSION. Received: $version.")
    }
    return when (options.backend) {
        Backend.GPU -> gpuDelegate().let { WatchedDelegate("GPU", it.nativeHandle, it) }
        Backend.NPU -> throw unavailable("TensorFlow Lite offers no NPU")
        else -> xnnpack(nativeLibrary(), options)
    }
}

private fun xnnpack(library: NativeLibrary, options: EngineOptions): WatchedDelegate {
    val xnnpack = Xnnpack(library, options.threads, options.backend == Backend.CPU_HALF)
    return WatchedDelegate("XNNPACK", xnnpack.address, xnnpack)
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

private fun optionsOf(options: EngineOptions, delegate: Delegate?): Interpreter.Options {
    val result = Interpreter.Options()
    result.setNumThreads(options.threads)
    result.setUseXNNPACK(false) // It must not take what the delegate leaves.
    if (delegate != null) result.addDelegate(delegate)
    return result
}

/** A delegate that is asked how much of the model it took. */
private class WatchedDelegate(
    private val name: String,
    private val handle: Long,
    private val owner: AutoCloseable,
) : Delegate {
    private val watch = DelegateWatch(handle)

    /** How many operators it took; null if unknown. */
    val delegated: Int? get() = watch.delegated(name)

    override fun getNativeHandle(): Long = handle

    override fun close() = owner.close()
}

private class InterpreterEngine(
    private val interpreter: Interpreter,
    private val delegate: WatchedDelegate?,
    options: EngineOptions,
    runtime: String,
) : Engine {
    override val info =
        EngineInfo(options.backend, options.threads, runtime, delegated = delegate?.delegated)

    // `Interpreter.run` would make both anew for each image.
    private val inputs = arrayOfNulls<Any>(1)
    private val outputs = HashMap<Int, Any>(1)

    override fun run(input: ByteBuffer, output: ByteBuffer) {
        input.rewind()
        output.rewind()
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
