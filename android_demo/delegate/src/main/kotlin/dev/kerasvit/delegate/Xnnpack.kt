package dev.kerasvit.delegate

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
class Xnnpack(private val library: NativeLibrary, threads: Int, inHalfPrecision: Boolean) :
    AutoCloseable {
    private val pointer =
        if (inHalfPrecision) inHalfPrecision(threads) else create(optionsOf(threads))

    /** The address of the `TfLiteDelegate`. */
    val address: Long = Pointer.nativeValue(pointer)

    override fun close() = delete(pointer)

    // The place of the flags in the options depends on the version of the runtime: the right one is
    // where the runtime itself finds the flag.
    private fun inHalfPrecision(threads: Int): Pointer {
        for (place in PLACES_OF_FLAGS) {
            val options = optionsOf(threads)
            options.words[place] = options.words[place] or HALF_PRECISION
            val delegate = create(options)
            if (flagsOf(delegate) and HALF_PRECISION != 0) return delegate
            delete(delegate)
        }
        throw unavailable("XNNPACK of this runtime does not take the option for half precision")
    }

    private fun optionsOf(threads: Int): XnnpackOptions {
        val options = library.getFunction("TfLiteXNNPackDelegateOptionsDefault")
            .invoke(XnnpackOptions.Returned::class.java, emptyArray()) as XnnpackOptions
        options.words[PLACE_OF_THREADS] = threads
        return options
    }

    private fun create(options: XnnpackOptions): Pointer {
        options.write()
        return library.getFunction("TfLiteXNNPackDelegateCreate")
            .invokePointer(arrayOf(options.pointer))
            ?: throw unavailable("XNNPACK does not start on this processor")
    }

    private fun flagsOf(delegate: Pointer): Int =
        library.getFunction("TfLiteXNNPackDelegateGetFlags").invokeInt(arrayOf(delegate))

    private fun delete(delegate: Pointer) =
        library.getFunction("TfLiteXNNPackDelegateDelete").invokeVoid(arrayOf(delegate))
}

/** `TfLiteXNNPackDelegateOptions`, with room for the fields of later versions. */
@Structure.FieldOrder("words")
internal open class XnnpackOptions : Structure() {
    @JvmField
    var words = IntArray(64)

    /** As the result of a function. */
    class Returned : XnnpackOptions(), Structure.ByValue
}

private fun unavailable(reason: String) = EngineException(EngineFailure.UNAVAILABLE, reason)

private const val PLACE_OF_THREADS = 0

// LiteRT 1.3 put `runtime_flags` before them.
private val PLACES_OF_FLAGS = 1..2

/** TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16 */
private const val HALF_PRECISION = 4
