package dev.kerasvit.interpreter

import com.sun.jna.Callback
import com.sun.jna.CallbackReference
import com.sun.jna.Function
import com.sun.jna.Memory
import com.sun.jna.Native
import com.sun.jna.Pointer
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure

/**
 * Counts the operators that a delegate takes.
 *
 * An interpreter calls the function `Prepare` of each `TfLiteDelegate`, and that is where a delegate
 * replaces operators of the graph by its own. The watch steps in between and compares the graph
 * before with the graph afterwards. It must live as long as the delegate.
 *
 * @param address of a `TfLiteDelegate` that no interpreter has yet
 */
internal class DelegateWatch(address: Long) {
    private var delegated = 0
    private var all = 0

    // A field: else it would be collected while native code still refers to it.
    private val watched: Prepare?

    init {
        val delegate = Pointer(address)
        val original = delegate.getPointer(PREPARE)
        // Delegates with a stable ABI have their functions elsewhere.
        watched = original?.let { watch(Function.getFunction(it)) }
        watched?.let { delegate.setPointer(PREPARE, CallbackReference.getFunctionPointer(it)) }
    }

    private fun watch(original: Function) = object : Prepare {
        // JNA would tell the runtime of an exception that all is well.
        override fun invoke(context: Pointer, delegate: Pointer): Int = try {
            prepare(original, context, delegate)
        } catch (_: Throwable) {
            ERROR
        }
    }

    private fun prepare(original: Function, context: Pointer, delegate: Pointer): Int {
        val before = executionPlan(context)
        val status = original.invokeInt(arrayOf(context, delegate))
        val after = executionPlan(context)
        if (before != null && after != null) {
            delegated += (before - after).size
            all += before.size
        }
        return status
    }

    /**
     * How many operators the delegate took, after an interpreter has applied it; null if unknown.
     *
     * @param name of the delegate
     * @throws EngineException if it took none, which no runtime calls a failure
     */
    fun delegated(name: String): Int? {
        if (all == 0) return null
        if (delegated > 0) return delegated
        val reason = "$name takes none of the model's $all operators"
        throw EngineException(EngineFailure.REFUSED, reason)
    }
}

/** `TfLiteStatus (*Prepare)(TfLiteContext*, TfLiteDelegate*)`; a name that R8 must keep. */
internal interface Prepare : Callback {
    fun invoke(context: Pointer, delegate: Pointer): Int
}

/** The operators that are to be run, by their indices; null if the runtime does not tell. */
private fun executionPlan(context: Pointer): Set<Int>? {
    val function = context.getPointer(GET_EXECUTION_PLAN) ?: return null
    val result = Memory(Native.POINTER_SIZE.toLong())
    val status = Function.getFunction(function).invokeInt(arrayOf(context, result))
    if (status != OK) return null
    val plan = result.getPointer(0) // A `TfLiteIntArray`: the size, then the numbers.
    return plan.getIntArray(Int.SIZE_BYTES.toLong(), plan.getInt(0)).toSet()
}

// Both are the second field of their struct, behind one of a pointer's size, since 2019.
private val PREPARE = Native.POINTER_SIZE.toLong()
private val GET_EXECUTION_PLAN = Native.POINTER_SIZE.toLong()
private const val OK = 0
private const val ERROR = 1
