package dev.kerasvit.litert

import com.sun.jna.Pointer
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.engine.engineExceptionOf
import java.io.File
import java.nio.ByteBuffer
import java.security.MessageDigest

/**
 * Engines of the `CompiledModel` of LiteRT 2.3.0, through its C functions. In another version their
 * structures may differ, and a wrong one ends the process without a message.
 *
 * The choice of the backend is strict. LiteRT itself runs on the CPU what a GPU or an NPU does not
 * take, and lets a model load that fails when it runs. Here a GPU or an NPU takes the whole model or
 * refuses it, what XNNPACK took is counted, and a model has run once before it counts as loaded.
 *
 * For 64-bit processors.
 *
 * @param library LiteRT, as `System.loadLibrary` takes it, or the path of a file
 * @param accelerators the folder of libLiteRt...Accelerator.so; null: the system finds them, as in an
 *     app
 * @param vendors the folder of the NPU's libraries, libLiteRtDispatch_....so
 * @param cache a folder where the GPU and the NPU keep what they compiled of a model
 */
class CompiledModelEngines(
    private val library: String = "LiteRt",
    private val accelerators: File? = null,
    private val vendors: File? = null,
    private val cache: File? = null,
) : EngineFactory {
    // The C functions do not tell the version.
    override val runtime: String = "LiteRT $TESTED_VERSION"

    override val backends: List<Backend> = Backend.values().toList()

    private val liteRt by lazy { LiteRt(library) }

    override fun create(model: ByteBuffer, options: EngineOptions): Engine = try {
        createOn(model, options)
    } catch (error: LiteRtFailure) {
        throw exceptionOf(error, model, options)
    } catch (error: Throwable) {
        throw engineExceptionOf(error)
    }

    private fun createOn(model: ByteBuffer, options: EngineOptions): Engine {
        var compiled = compile(model, options)
        try {
            compiled.run()
            var delegated = if (options.backend == Backend.CPU_PLAIN) null else compiled.operators
            if (isPartly(compiled, options)) {
                compiled.close() // A phone may hold one large model and not two.
                delegated = countDelegated(model, options)
                compiled = compile(model, options)
                compiled.run()
            }
            val info = EngineInfo(options.backend, options.threads, runtime, delegated)
            return CompiledModelEngine(compiled, info)
        } catch (error: Throwable) {
            compiled.close()
            throw error
        }
    }

    private fun compile(
        model: ByteBuffer,
        options: EngineOptions,
        isProfiled: Boolean = false,
    ): CompiledModel {
        val hardware = options.backend.hardware
        val settings = mapOf(
            "xnnpack" to xnnpackSettings(options),
            "gpu_options" to if (hardware == Hardware.GPU) gpuSettings(model) else "",
            "runtime_options_string" to "error_reporter_mode = 2\nenable_profiling = $isProfiled\n",
        )
        return compiledModel(liteRt, environment(hardware), model, hardware, settings)
    }

    /** Whether XNNPACK leaves operators to the runtime's own kernels. */
    private fun isPartly(compiled: CompiledModel, options: EngineOptions): Boolean {
        val isWhole = compiled.isFullyAccelerated
        if (options.backend == Backend.CPU_PLAIN) {
            return if (isWhole) throw refused("XNNPACK takes the model unasked") else false
        }
        if (!isWhole && options.backend.hardware != Hardware.CPU) throw partly(options.backend)
        return !isWhole
    }

    /** How many operators XNNPACK takes. Profiling slows a model down: this copy is closed. */
    private fun countDelegated(model: ByteBuffer, options: EngineOptions): Int =
        compile(model, options, isProfiled = true).use { profiled ->
            val all = profiled.operators
            val left = profiled.countPlainOperators()
            if (left == all) throw refused("XNNPACK takes none of the model's $all operators")
            all - left
        }

    private fun environment(hardware: Hardware): Pointer = synchronized(environments) {
        environments.getOrPut(listOf(library, accelerators, vendors, cache, hardware)) {
            val made = liteRt.environment(hardware, accelerators, vendors, cache)
            if (!liteRt.has(made, hardware)) {
                liteRt.destroy("Environment", made)
                throw unavailable("LiteRT finds no library for the $hardware")
            }
            made
        }
    }

    private fun gpuSettings(model: ByteBuffer): String {
        val folder = cache ?: return ""
        return "serialization_dir = \"$folder\"\nmodel_cache_key = \"${sha256(model)}\"\n" +
            "serialize_program_cache = true\n"
    }

    // LiteRT writes its reasons to the log only. An unknown operator and a missing GPU give one
    // status; only a model with an unknown operator fails on LiteRT's own kernels, too.
    private fun exceptionOf(
        failure: LiteRtFailure,
        model: ByteBuffer,
        options: EngineOptions,
    ): EngineException {
        val isUnclear = failure.status == RUNTIME_FAILURE && failure.isOfCreation
        val isPartly = failure.status == COMPILATION && options.backend.hardware != Hardware.CPU
        val reason = failure.message.orEmpty()
        return when {
            isPartly -> partly(options.backend)
            !isUnclear -> refused(reason)
            !isKnown(model) -> EngineException(
                EngineFailure.TOO_OLD,
                "LiteRT does not know an operator of the model, or its version: $reason",
            )
            options.backend.hardware == Hardware.CPU -> refused(reason)
            else -> unavailable(reason)
        }
    }

    private fun isKnown(model: ByteBuffer): Boolean = try {
        compile(model, EngineOptions(Backend.CPU_PLAIN, threads = 1)).close()
        true
    } catch (_: LiteRtFailure) {
        false
    }
}

// By what they were made for. They live as long as the process: a few kilobytes, and the connection
// to the GPU.
private val environments = HashMap<List<Any?>, Pointer>()

private val Backend.hardware: Hardware
    get() = when (this) {
        Backend.CPU, Backend.CPU_HALF, Backend.CPU_PLAIN -> Hardware.CPU
        Backend.GPU -> Hardware.GPU
        Backend.NPU -> Hardware.NPU
    }

private fun xnnpackSettings(options: EngineOptions): String = when (options.backend) {
    Backend.CPU_HALF -> "num_threads = ${options.threads}\nflags = $HALF_PRECISION\n"
    Backend.CPU_PLAIN -> "num_threads = ${options.threads}\nkernel_mode = \"builtin\"\n"
    else -> "num_threads = ${options.threads}\n"
}

private fun sha256(model: ByteBuffer): String {
    val digest = MessageDigest.getInstance("SHA-256")
    digest.update(model.duplicate().apply { clear() })
    return digest.digest().joinToString("") { "%02x".format(it) }
}

private fun partly(backend: Backend) =
    refused("the $backend does not take the whole model; the system's log names the operators")

private fun refused(reason: String) = EngineException(EngineFailure.REFUSED, reason)

internal fun unavailable(reason: String) = EngineException(EngineFailure.UNAVAILABLE, reason)

/** TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16 */
private const val HALF_PRECISION = 4
