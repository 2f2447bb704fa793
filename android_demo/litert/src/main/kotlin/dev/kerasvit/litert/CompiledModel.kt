package dev.kerasvit.litert

import com.sun.jna.Memory
import com.sun.jna.Native
import com.sun.jna.Pointer
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import java.nio.ByteBuffer
import java.nio.ByteOrder

/** A loaded model behind the interface of all runtimes. */
internal class CompiledModelEngine(
    private val model: CompiledModel,
    override val info: EngineInfo,
) : Engine {
    override fun run(input: ByteBuffer, output: ByteBuffer) {
        if (input.capacity() != model.input.capacity() ||
            output.capacity() != model.output.capacity()
        ) {
            throw EngineException(
                EngineFailure.REFUSED,
                "the model's tensors have ${model.input.capacity()} and " +
                    "${model.output.capacity()} bytes. Received: ${input.capacity()} for " +
                    "${output.capacity()}.",
            )
        }
        copy(input, model.input)
        try {
            model.run()
        } catch (failure: LiteRtFailure) {
            throw EngineException(EngineFailure.REFUSED, failure.message.orEmpty(), failure)
        }
        copy(model.output, output)
    }

    override fun close() = model.close()

    private fun copy(from: ByteBuffer, to: ByteBuffer) {
        from.clear()
        to.clear()
        to.put(from)
        from.clear()
        to.clear()
    }
}

/**
 * Compiles a model.
 *
 * @param file a direct buffer, to which LiteRT refers while the model is open
 * @param settings by the names of LiteRT's groups of options, in TOML
 * @throws LiteRtFailure if LiteRT refuses it
 */
internal fun compiledModel(
    liteRt: LiteRt,
    environment: Pointer,
    file: ByteBuffer,
    hardware: Hardware,
    settings: Map<String, String>,
): CompiledModel {
    val owned = Owned(liteRt)
    try {
        val bytes = Native.getDirectBufferPointer(file)
        val model = owned.make("Model") {
            pointer("LiteRtCreateModelFromBuffer", environment, bytes, file.capacity().toLong())
        }
        val compiled = owned.make("CompiledModel") {
            val options = optionsOf(hardware, settings)
            try {
                pointer("LiteRtCreateCompiledModel", environment, model, options)
            } finally {
                destroy("Options", options)
            }
        }
        // LiteRT gives the CPU, too, to whoever asks for an NPU.
        val kind = if (hardware == Hardware.CPU) "" else "NonCpu"
        val whole = liteRt.number("LiteRtCompiledModelIs${kind}FullyAccelerated", compiled)
        return CompiledModel(liteRt, owned, model, compiled, whole != 0L, file)
    } catch (error: Throwable) {
        owned.close()
        throw error
    }
}

/** A compiled model, and the memory of its one input and one output. */
internal class CompiledModel(
    private val liteRt: LiteRt,
    private val owned: Owned,
    model: Pointer,
    private val compiled: Pointer,
    /** Whether the hardware takes every operator. */
    val isFullyAccelerated: Boolean,
    // Must not be collected while LiteRT refers to it.
    @Suppress("unused") private val file: ByteBuffer,
) : AutoCloseable {
    /** How many operators the file has. */
    val operators: Int

    val input: ByteBuffer
    val output: ByteBuffer
    private val arguments: Array<Any>
    private val runFunction = liteRt.function("LiteRtRunCompiledModel")

    init {
        val graph = liteRt.pointer("LiteRtGetModelSubgraph", model, 0L)
        operators = liteRt.number("LiteRtGetNumSubgraphOps", graph).toInt()
        val signature = liteRt.pointer("LiteRtGetModelSignature", model, 0L)
        val (inputType, outputType) = listOf("Input", "Output").map {
            val tensor = liteRt.pointer("LiteRtGetSignature${it}TensorByIndex", signature, 0L)
            Memory(TYPE_BYTES).also { type ->
                liteRt.call("LiteRtGetRankedTensorType", tensor, type)
            }
        }
        input = alignedBuffer(bytesOf(inputType))
        output = alignedBuffer(bytesOf(outputType))
        val (from, to) = listOf(tensorBuffer(inputType, input), tensorBuffer(outputType, output))
        arguments = arrayOf(compiled, 0L, 1L, addressOf(from), 1L, addressOf(to))
    }

    private fun tensorBuffer(type: Memory, memory: ByteBuffer): Pointer =
        owned.make("TensorBuffer") {
            val address = Native.getDirectBufferPointer(memory)
            val bytes = memory.capacity().toLong()
            pointer("LiteRtCreateTensorBufferFromHostMemory", type, address, bytes, null)
        }

    /**
     * Computes [output] of [input].
     *
     * @throws LiteRtFailure if the runtime fails
     */
    fun run() {
        check(!owned.isClosed) { "the engine is closed" }
        val status = runFunction.invokeInt(arguments)
        if (status != 0) throw LiteRtFailure("LiteRtRunCompiledModel", status, ": ${messages()}")
    }

    private fun messages(): String {
        val address = liteRt.number("LiteRtCompiledModelGetErrorMessages", compiled)
        if (address == 0L) return "no message"
        return Pointer(address).getString(0).trim().also { Native.free(address) }
    }

    /** How many operators the runtime's own kernels run; of a model that is profiled. */
    fun countPlainOperators(): Int {
        val profiler = liteRt.pointer("LiteRtCompiledModelGetProfiler", compiled)
        liteRt.call("LiteRtStartProfiler", profiler)
        run()
        liteRt.call("LiteRtStopProfiler", profiler)
        val count = liteRt.number("LiteRtGetNumProfilerEvents", profiler).toInt()
        if (count == 0) return 0
        val events = Memory(EVENT_BYTES * count)
        liteRt.call("LiteRtGetProfilerEvents", profiler, count, events)
        return (0 until count).count { events.getInt(EVENT_BYTES * it + EVENT_TYPE) == OPERATOR }
    }

    override fun close() = owned.close()
}

/** What LiteRT made and must destroy, the last first. */
internal class Owned(private val liteRt: LiteRt) : AutoCloseable {
    private val made = ArrayList<Pair<String, Pointer>>()

    var isClosed = false
        private set

    /** @param kind as in [LiteRt.destroy] */
    fun make(kind: String, make: LiteRt.() -> Pointer): Pointer =
        liteRt.make().also { made.add(kind to it) }

    override fun close() {
        isClosed = true
        for ((kind, pointer) in made.asReversed()) liteRt.destroy(kind, pointer)
        made.clear()
    }
}

private fun LiteRt.optionsOf(hardware: Hardware, settings: Map<String, String>): Pointer {
    val options = pointer("LiteRtCreateOptions")
    call("LiteRtSetOptionsHardwareAccelerators", options, hardware.bit)
    for ((group, toml) in settings) if (toml.isNotEmpty()) {
        // LiteRT frees the text by the function that it is given.
        val opaque = pointer("LiteRtCreateOpaqueOptions", group, cString(toml), free)
        call("LiteRtAddOpaqueOptions", options, opaque)
    }
    return options
}

private val free: Pointer by lazy { privateLibrary("c").getFunction("free") }

/** LiteRT takes memory for tensors at multiples of 64. */
private fun alignedBuffer(bytes: Int): ByteBuffer {
    val whole = ByteBuffer.allocateDirect(bytes + ALIGNMENT)
    val address = Pointer.nativeValue(Native.getDirectBufferPointer(whole))
    val start = (-address and ALIGNMENT - 1L).toInt()
    whole.position(start)
    whole.limit(start + bytes)
    return whole.slice().order(ByteOrder.nativeOrder())
}

private fun addressOf(pointer: Pointer): Memory =
    Memory(Native.POINTER_SIZE.toLong()).also { it.setPointer(0, pointer) }

// `LiteRtRankedTensorType` { int32 element type; LiteRtLayout { uint32 rank: 7; int32 sizes[8]; } }
private fun bytesOf(type: Memory): Int {
    val element = checkNotNull(ELEMENT_BYTES[type.getInt(0)]) {
        "the model's tensors are of type ${type.getInt(0)}, which is none of ${ELEMENT_BYTES.keys}"
    }
    val rank = type.getInt(4) and 127
    return type.getIntArray(8, rank).fold(element, Math::multiplyExact)
}

private const val TYPE_BYTES = 72L
private const val ALIGNMENT = 64

// `LiteRtElementType`: float32, int32, uint8, int64, int16, int8, float16.
private val ELEMENT_BYTES = mapOf(1 to 4, 2 to 4, 3 to 1, 4 to 8, 7 to 2, 9 to 1, 10 to 2)

// `ProfiledEventData`, and the type of an event that is an operator of the runtime's own kernels.
private const val EVENT_BYTES = 104L
private const val EVENT_TYPE = 8L
private const val OPERATOR = 2
