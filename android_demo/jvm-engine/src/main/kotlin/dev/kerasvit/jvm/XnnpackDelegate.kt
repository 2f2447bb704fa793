package dev.kerasvit.jvm

import com.sun.jna.Memory
import com.sun.jna.NativeLibrary
import com.sun.jna.Pointer
import org.bytedeco.javacpp.Loader
import org.bytedeco.tensorflowlite.TfLiteDelegate
import org.bytedeco.tensorflowlite.global.tensorflowlite

/** XNNPACK with options, through TensorFlow Lite's C functions. */
internal class XnnpackDelegate(threads: Int, inHalfPrecision: Boolean) : AutoCloseable {
    private val address: Pointer
    val pointer: TfLiteDelegate

    init {
        val options = Memory(OPTIONS_BYTES)
        // A large struct is returned through a hidden pointer, the first argument.
        library.getFunction("TfLiteXNNPackDelegateOptionsDefault").invokePointer(arrayOf(options))
        options.setInt(THREADS_AT, threads)
        if (inHalfPrecision) {
            options.setInt(FLAGS_AT, options.getInt(FLAGS_AT) or FORCE_HALF_PRECISION)
        }
        address = library.getFunction("TfLiteXNNPackDelegateCreate").invokePointer(arrayOf(options))
        pointer = TfLiteDelegate(AtAddress(Pointer.nativeValue(address)))
    }

    override fun close() {
        library.getFunction("TfLiteXNNPackDelegateDelete").invokeVoid(arrayOf(address))
    }

    // JavaCPP makes a pointer of its own type from any other.
    private class AtAddress(at: Long) : org.bytedeco.javacpp.Pointer() {
        init {
            address = at
        }
    }
}

private val library: NativeLibrary by lazy {
    NativeLibrary.getInstance(Loader.load(tensorflowlite::class.java))
}

// The beginning of `TfLiteXNNPackDelegateOptions`.
private const val THREADS_AT = 0L
private const val FLAGS_AT = 4L
private const val FORCE_HALF_PRECISION = 4
private const val OPTIONS_BYTES = 512L
