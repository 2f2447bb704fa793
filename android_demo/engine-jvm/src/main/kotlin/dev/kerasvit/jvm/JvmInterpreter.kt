package dev.kerasvit.jvm

import com.sun.jna.NativeLibrary
import dev.kerasvit.delegate.DelegateWatch
import dev.kerasvit.delegate.Xnnpack
import dev.kerasvit.delegate.privateLibrary
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import java.nio.ByteOrder
import org.bytedeco.javacpp.BytePointer
import org.bytedeco.javacpp.Loader
import org.bytedeco.javacpp.Pointer
import org.bytedeco.tensorflowlite.BuiltinOpResolverWithoutDefaultDelegates
import org.bytedeco.tensorflowlite.FlatBufferModel
import org.bytedeco.tensorflowlite.Interpreter
import org.bytedeco.tensorflowlite.InterpreterBuilder
import org.bytedeco.tensorflowlite.TfLiteDelegate
import org.bytedeco.tensorflowlite.TfLiteTensor
import org.bytedeco.tensorflowlite.global.tensorflowlite

/**
 * TensorFlow Lite's interpreter and all that must live as long as it.
 *
 * @throws IllegalStateException the runtime refuses; it prints the reason
 */
internal class JvmInterpreter(model: ByteBuffer, options: EngineOptions) : AutoCloseable {
    private val bytes = BytePointer(model)
    private val flatBuffer =
        checkNotNull(FlatBufferModel.BuildFromBuffer(bytes, model.capacity().toLong())) {
            "the model cannot be read"
        }

    // Without delegates of its own choice: those that fail would be left out silently.
    private val resolver = BuiltinOpResolverWithoutDefaultDelegates()
    private val delegate = when (options.backend) {
        Backend.CPU_PLAIN -> null
        else -> Xnnpack(library, options.threads, options.backend == Backend.CPU_HALF)
    }
    private val watch = delegate?.let { DelegateWatch(it.address) }
    private val interpreter = Interpreter(null as Pointer?)

    /** The tensors' memory. */
    val input: ByteBuffer
    val output: ByteBuffer

    /** How many operators XNNPACK took. */
    val taken: Int?

    init {
        val builder = InterpreterBuilder(flatBuffer, resolver)
        check("threads", builder.SetNumThreads(options.threads))
        delegate?.let { builder.AddDelegate(TfLiteDelegate(AtAddress(it.address))) }
        check("building the interpreter", builder.apply(interpreter))
        builder.close()
        check(!interpreter.isNull) { "there is no interpreter" }
        check("allocating tensors", interpreter.AllocateTensors())
        input = interpreter.input_tensor(0).memory()
        output = interpreter.output_tensor(0).memory()
        taken = watch?.taken("XNNPACK")
    }

    fun invoke() = check("computing", interpreter.Invoke())

    override fun close() {
        interpreter.close()
        delegate?.close()
        resolver.close()
        flatBuffer.close()
        bytes.close()
    }
}

// JavaCPP makes a pointer of its own type from any other.
private class AtAddress(at: Long) : Pointer() {
    init {
        address = at
    }
}

private val library: NativeLibrary by lazy {
    privateLibrary(Loader.load(tensorflowlite::class.java))
}

private fun TfLiteTensor.memory(): ByteBuffer =
    data().raw().capacity(bytes()).asByteBuffer().order(ByteOrder.nativeOrder())

private fun check(step: String, status: Int) =
    check(status == 0) { "$step failed with status $status" }
