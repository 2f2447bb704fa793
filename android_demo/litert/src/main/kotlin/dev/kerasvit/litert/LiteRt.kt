package dev.kerasvit.litert

import com.sun.jna.Memory
import com.sun.jna.Native
import com.sun.jna.NativeLibrary
import com.sun.jna.Pointer
import java.io.File

/** `LiteRtHwAccelerators`: a bit each. */
internal enum class Hardware(val bit: Int) { CPU(1), GPU(2), NPU(4) }

/** A function of LiteRT failed. */
internal class LiteRtFailure(function: String, val status: Int, words: String = "") :
    Exception("$function: status $status${STATUSES[status].orEmpty()}$words") {
    val isOfCreation = function == "LiteRtCreateCompiledModel"
}

/**
 * LiteRT's C functions, called by their names. Most return a status, and write their result to where
 * the last argument points.
 */
internal class LiteRt(path: String) {
    private val library: NativeLibrary

    init {
        if (Native.POINTER_SIZE != 8) {
            throw unavailable("LiteRT's structures are known for 64 bits only")
        }
        val version = packagedVersion(File(path))
        if (version != null && version != TESTED_VERSION) {
            throw unavailable("it needs the tested version, $TESTED_VERSION. Received: $version.")
        }
        library = privateLibrary(path)
    }

    fun function(name: String) = library.getFunction(name)!!

    /** @throws LiteRtFailure */
    fun call(name: String, vararg arguments: Any?) {
        val status = function(name).invokeInt(arguments)
        if (status != OK) throw LiteRtFailure(name, status)
    }

    /** The address that a function writes. */
    fun pointer(name: String, vararg arguments: Any?): Pointer =
        result(name, arguments).getPointer(0)

    /** The number, of up to 64 bits, that a function writes. */
    fun number(name: String, vararg arguments: Any?): Long = result(name, arguments).getLong(0)

    private fun result(name: String, arguments: Array<out Any?>): Memory {
        val result = Memory(Long.SIZE_BYTES.toLong())
        result.clear()
        call(name, *arguments, result)
        return result
    }

    /** @param kind "Model" for `LiteRtDestroyModel` */
    fun destroy(kind: String, pointer: Pointer) =
        function("LiteRtDestroy$kind").invokeVoid(arrayOf(pointer))
}

/** The version of the Python package that holds a library; null elsewhere, as in an app. */
private fun packagedVersion(library: File): String? =
    library.parentFile?.absoluteFile?.parentFile?.list().orEmpty().firstNotNullOfOrNull {
        Regex("ai_edge_litert-(.+)\\.dist-info").matchEntire(it)?.groupValues?.get(1)
    }

/** An environment with the CPU and one more kind of hardware. */
internal fun LiteRt.environment(
    hardware: Hardware,
    accelerators: File?,
    vendors: File?,
    cache: File?,
): Pointer {
    val options = mapOf<Int, Any?>(
        COMPILER_PLUGINS to vendors,
        DISPATCH_LIBRARIES to vendors,
        COMPILER_CACHE to cache,
        RUNTIME_LIBRARIES to accelerators,
        ACCELERATORS to (Hardware.CPU.bit or hardware.bit).toLong(),
        LEAST_SEVERITY to WARNING,
    ).filterValues { it != null }
    val memory = Memory(OPTION_BYTES * options.size)
    memory.clear()
    for ((i, entry) in options.entries.withIndex()) {
        val (tag, value) = entry
        val option = memory.share(i * OPTION_BYTES)
        option.setInt(0, tag)
        option.setInt(8, if (value is Long) INTEGER else STRING)
        if (value is Long) option.setLong(16, value) else option.setPointer(16, cString("$value"))
    }
    return pointer("LiteRtCreateEnvironment", options.size, memory)
}

/** Whether the environment has an accelerator for this hardware. */
internal fun LiteRt.has(environment: Pointer, hardware: Hardware): Boolean {
    val count = number("LiteRtGetNumAccelerators", environment)
    return (0 until count).any { i ->
        val accelerator = pointer("LiteRtGetAccelerator", environment, i)
        val supported = number("LiteRtGetAcceleratorHardwareSupport", accelerator)
        supported and hardware.bit.toLong() != 0L
    }
}

/** A text for C, which nobody frees here. */
internal fun cString(text: String): Pointer {
    val bytes = text.toByteArray() + 0
    return Pointer(Native.malloc(bytes.size.toLong())).also { it.write(0, bytes, 0, bytes.size) }
}

internal const val TESTED_VERSION = "2.3.0"

private const val OK = 0
internal const val RUNTIME_FAILURE = 3
internal const val COMPILATION = 504

// `LiteRtStatus`
private val STATUSES = mapOf(
    1 to " (invalid argument)",
    2 to " (memory)",
    RUNTIME_FAILURE to " (runtime failure)",
    5 to " (unsupported)",
    501 to " (not a .tflite file)",
    COMPILATION to " (compilation)",
)

// `LiteRtEnvOption` { int32 tag; LiteRtAny { int32 type; union value; } }, and its tags.
private const val OPTION_BYTES = 24L
private const val INTEGER = 2
private const val STRING = 8
private const val COMPILER_PLUGINS = 0
private const val DISPATCH_LIBRARIES = 1
private const val COMPILER_CACHE = 18
private const val RUNTIME_LIBRARIES = 22
private const val ACCELERATORS = 24
private const val LEAST_SEVERITY = 25
private const val WARNING = 2L
