package dev.kerasvit.interpreter

import com.sun.jna.NativeLibrary
import com.sun.jna.Pointer
import com.sun.jna.Structure
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure

/**
 * XNNPACK, made through the C functions of the runtime.
 *
 * The interpreter's own switch only asks for XNNPACK. It neither sets half precision there nor tells
 * whether XNNPACK took anything.
 *
 * @param library the runtime's native library
 * @param inHalfPrecision floats in half precision; on a processor without it, the interpreter
 *     refuses the delegate
 * @throws LinkageError if the library does not have these functions
 * @throws EngineException if XNNPACK cannot be had as it was asked for
 */
internal class Xnnpack(
    private val library: NativeLibrary,
    threads: Int,
    inHalfPrecision: Boolean,
) : AutoCloseable {
    private val pointer = create(threads, if (inHalfPrecision) HALF_PRECISION else 0)

    /** The address of the `TfLiteDelegate`. */
    val address: Long = Pointer.nativeValue(pointer)

    init {
        // The runtime itself says whether the flag stands where it expects it.
        if (inHalfPrecision && flags() and HALF_PRECISION == 0) {
            close()
            throw unavailable("XNNPACK does not take the option for half precision")
        }
    }

    override fun close() =
        library.getFunction("TfLiteXNNPackDelegateDelete").invokeVoid(arrayOf(pointer))

    private fun create(threads: Int, flags: Int): Pointer {
        val options = library.getFunction("TfLiteXNNPackDelegateOptionsDefault")
            .invoke(XnnpackOptions.Returned::class.java, emptyArray()) as XnnpackOptions
        options.words[PLACE_OF_THREADS] = threads
        options.words[PLACE_OF_FLAGS] = options.words[PLACE_OF_FLAGS] or flags
        options.write()
        return library.getFunction("TfLiteXNNPackDelegateCreate")
            .invokePointer(arrayOf(options.pointer))
            ?: throw unavailable("XNNPACK does not start on this processor")
    }

    private fun flags(): Int =
        library.getFunction("TfLiteXNNPackDelegateGetFlags").invokeInt(arrayOf(pointer))
}

/** `TfLiteXNNPackDelegateOptions`, with room to spare. */
internal open class XnnpackOptions : Structure() {
    @JvmField
    var words = IntArray(64)

    override fun getFieldOrder(): List<String> = listOf("words")

    /** As the result of a function. */
    class Returned : XnnpackOptions(), Structure.ByValue
}

private fun unavailable(reason: String) = EngineException(EngineFailure.UNAVAILABLE, reason)

private const val PLACE_OF_THREADS = 0
private const val PLACE_OF_FLAGS = 1

/** TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16 */
private const val HALF_PRECISION = 4
