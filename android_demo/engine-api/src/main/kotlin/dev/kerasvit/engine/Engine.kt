package dev.kerasvit.engine

import java.nio.ByteBuffer

/** What computes a model. */
enum class Backend {
    /** XNNPACK. */
    CPU,

    /** XNNPACK, with floats in half precision where the processor can. */
    CPU_HALF,

    /** The runtime's own kernels, without XNNPACK. */
    CPU_PLAIN,
    GPU,
    NPU,
}

/** What an engine is asked for; it is a strict choice. */
data class EngineOptions(val backend: Backend, val threads: Int)

/** What an engine really is. */
data class EngineInfo(
    val backend: Backend,
    val threads: Int,
    /** "LiteRT 2.3.0". */
    val runtime: String,
    /**
     * How many of the model's operators the backend took; the runtime's own kernels run the others.
     * Null if unknown, and for [Backend.CPU_PLAIN], where they run all.
     */
    val delegated: Int?,
)

/** Makes engines of one runtime. */
interface EngineFactory {
    /** "LiteRT 2.3.0". */
    val runtime: String

    /** The backends that this runtime can offer at all; one of them may still refuse a model. */
    val backends: List<Backend>

    /**
     * Loads a model. It never falls back to another backend.
     *
     * @param model a direct buffer, which must live as long as the engine
     * @throws EngineException if the backend cannot be had or refuses the model
     */
    fun create(model: ByteBuffer, options: EngineOptions): Engine
}

/** A loaded model with one input and one output tensor. For one thread. */
interface Engine : AutoCloseable {
    val info: EngineInfo

    /**
     * Computes the output of one image.
     *
     * @param input the whole input tensor, a direct buffer in native byte order, from byte 0
     * @param output filled with the whole output tensor in the same way
     * @throws EngineException if the runtime fails
     */
    fun run(input: ByteBuffer, output: ByteBuffer)

    override fun close()
}

/** A model cannot be loaded or computed. */
class EngineException(
    val kind: EngineFailure,
    /** The runtime's own words. */
    val reason: String,
    cause: Throwable? = null,
) : Exception("$kind: $reason", cause)

enum class EngineFailure {
    /** The runtime does not have an operator of the model: it is too old. */
    TOO_OLD,

    /** The backend cannot compute this model. */
    REFUSED,

    /** This device or this runtime does not have the backend. */
    UNAVAILABLE,
    OUT_OF_MEMORY,

    /** The scores are NaN or infinite, as when half precision overflows. */
    NOT_FINITE,

    /** A class map has numbers beyond the model's classes: the file is damaged. */
    UNKNOWN_CLASS,
}

/** The typed form of whatever a runtime throws. */
fun engineExceptionOf(error: Throwable): EngineException {
    if (error is EngineException) return error
    val reason = withoutRepeats(error.message.orEmpty()).ifEmpty { error.javaClass.name }
    return EngineException(failureOf(error, reason), reason, error)
}

private fun failureOf(error: Throwable, reason: String): EngineFailure = when {
    error is OutOfMemoryError -> EngineFailure.OUT_OF_MEMORY
    error is LinkageError -> EngineFailure.UNAVAILABLE
    tooOld.containsMatchIn(reason) -> EngineFailure.TOO_OLD
    else -> EngineFailure.REFUSED
}

// The runtime may say the same for each operator of the model, until its memory for messages is full.
private fun withoutRepeats(message: String): String =
    message.trim().lines().fold(emptyList<String>()) { kept, line ->
        if (kept.any { line in it }) kept else kept + line
    }.joinToString("\n")

// What TensorFlow Lite says of operators, or versions of them, that it does not know.
private val tooOld =
    Regex("Didn't find op for builtin opcode|[Uu]nsupported .*op(code|erator) version")
