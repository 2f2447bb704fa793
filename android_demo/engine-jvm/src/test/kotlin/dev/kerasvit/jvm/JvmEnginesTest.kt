package dev.kerasvit.jvm

import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readModel
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertNull
import kotlin.test.assertTrue

class JvmEnginesTest {
    private val factory = JvmEngines()
    private val files = appBundle("digits-float16")
    private val model = readModel(files, readBundle(files).description)

    @Test
    fun `the runtime names its version`() {
        assertEquals("TensorFlow Lite 2.18.0", factory.runtime)
    }

    @Test
    fun `an engine is what it was asked for`() {
        for (backend in listOf(Backend.CPU, Backend.CPU_PLAIN)) {
            factory.create(model, EngineOptions(backend, 1)).use {
                assertEquals(backend, it.info.backend)
                assertEquals(1, it.info.threads)
                assertEquals(factory.runtime, it.info.runtime)
            }
        }
    }

    @Test
    fun `an engine tells how many operators XNNPACK took`() {
        val operators = readBundle(files).description.operators
        val (taken, plain) = listOf(Backend.CPU, Backend.CPU_PLAIN).map { backend ->
            factory.create(model, EngineOptions(backend, 1)).use { it.info.taken }
        }
        assertTrue(taken!! in operators * 3 / 4..operators, "$taken of $operators")
        assertNull(plain)
    }

    @Test
    fun `a backend that does not exist here is unavailable, not replaced`() {
        val error = assertFailsWith<EngineException> {
            factory.create(model, EngineOptions(Backend.GPU, 1))
        }
        assertEquals(EngineFailure.UNAVAILABLE, error.kind)
    }

    @Test
    fun `bytes that are no model are refused with the runtime's words`() {
        val noise = ByteBuffer.allocateDirect(1000)
        for (i in 0 until 1000) noise.put(i, (i * 37).toByte())
        val error = assertFailsWith<EngineException> {
            factory.create(noise, EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.REFUSED, error.kind)
        assertTrue("identifier" in error.reason, error.reason)
    }

    @Test
    fun `an operator version of the future is told to be too old a runtime`() {
        val error = assertFailsWith<EngineException> {
            factory.create(withNewerOperator(), EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.TOO_OLD, error.kind, error.reason)
        assertTrue("FULLY_CONNECTED" in error.reason && "99" in error.reason, error.reason)
    }

    @Test
    fun `buffers of another size are refused`() {
        factory.create(model, EngineOptions(Backend.CPU_PLAIN, 1)).use { engine ->
            val output = ByteBuffer.allocateDirect(40)
            val error = assertFailsWith<EngineException> {
                engine.run(ByteBuffer.allocateDirect(12), output)
            }
            assertTrue("12288 and 40 bytes" in error.reason, error.reason)
        }
    }

    /** The model with version 99 of FULLY_CONNECTED, as if a later exporter had made it. */
    private fun withNewerOperator(): ByteBuffer {
        val copy = ByteBuffer.allocateDirect(model.capacity()).order(ByteOrder.LITTLE_ENDIAN)
        for (i in 0 until model.capacity()) copy.put(i, model.get(i))
        copy.putInt(operatorVersion(copy, FULLY_CONNECTED), 99)
        return copy
    }
}

/** Where a flatbuffer holds the version of an operator: Model.operator_codes[].version. */
private fun operatorVersion(file: ByteBuffer, operator: Int): Int {
    val root = file.getInt(0)
    val codes = file.follow(file.field(root, 1))
    for (i in 0 until file.getInt(codes)) {
        val code = file.follow(codes + 4 + 4 * i)
        if (file.getInt(file.field(code, 3)) == operator) return file.field(code, 2)
    }
    error("there is no operator $operator")
}

private fun ByteBuffer.follow(offset: Int) = offset + getInt(offset)

private fun ByteBuffer.field(table: Int, index: Int): Int {
    val vtable = table - getInt(table)
    val offset = getShort(vtable + 4 + 2 * index).toInt()
    check(offset != 0) { "field $index has its default" }
    return table + offset
}

private const val FULLY_CONNECTED = 9
