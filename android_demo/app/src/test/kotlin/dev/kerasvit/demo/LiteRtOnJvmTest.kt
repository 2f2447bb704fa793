package dev.kerasvit.demo

import dev.kerasvit.core.Backend
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.Engine
import dev.kerasvit.core.EngineException
import dev.kerasvit.core.EngineFailure
import dev.kerasvit.core.EngineOptions
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readGolden
import dev.kerasvit.core.readModel
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.delegate.privateLibrary
import dev.kerasvit.demo.engine.LiteRtEngines
import dev.kerasvit.jvm.FolderFiles
import dev.kerasvit.jvm.HeldOutDigits
import dev.kerasvit.jvm.allocatedBy
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.math.abs
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.BeforeClass
import org.junit.Test

/** The app's own engines with the runtime of the APK: its x86-64 library, on this computer's JVM. */
class LiteRtOnJvmTest {
    private val engines = LiteRtEngines()

    @Test
    fun `the runtime is the APK's`() {
        assertEquals("TensorFlow Lite 2.16.1", engines.runtime)
    }

    @Test
    fun `it is told how many operators XNNPACK took`() {
        assertEquals(127, taken("digits-float16", Backend.CPU)) // of 157
        assertEquals(138, taken("digits-int8", Backend.CPU)) // of 185
        assertNull(taken("digits-float16", Backend.CPU_PLAIN))
    }

    @Test
    fun `the golden check passes on the CPU, and half precision is honest`() {
        for (name in NAMES) {
            val files = files(name)
            val bundle = readBundle(files)
            val backends = Backend.values().toList() - Backend.GPU
            val verdicts = verify(files, bundle, engines, backends, threads = 1)
            println(report("the APK's runtime on a JVM", engines.runtime, bundle, verdicts))
            val (full, half, plain) = verdicts.map { it.outcome }
            assertIs<Outcome.Passed>(full)
            assertIs<Outcome.Passed>(plain)
            // Few processors of computers have half precision; XNNPACK refuses it on the others.
            if (half is Outcome.Refused) {
                val failed = "Failed to apply delegate: failed to create XNNPACK runtime"
                assertEquals(EngineFailure.REFUSED, half.kind)
                assertEquals(1, half.reason.split(failed).size - 1, half.reason)
            } else {
                val difference = assertIs<Outcome.Passed>(half).measured.scoreDifference
                assertTrue(name == "digits-int8" || difference > 1e-4, "$difference")
            }
        }
    }

    @Test
    fun `a file of which XNNPACK takes nothing is refused, not run by others`() {
        val bytes = checkNotNull(javaClass.getResourceAsStream("/fixtures/cumulative_sum.tflite"))
            .use { it.readBytes() }
        val model = ByteBuffer.allocateDirect(bytes.size)
        for (i in bytes.indices) model.put(i, bytes[i])
        val error = assertFailsWith<EngineException> {
            engines.create(model, EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.REFUSED, error.kind)
        assertEquals("XNNPACK takes none of the model's 1 operators", error.reason)
        engines.create(model, EngineOptions(Backend.CPU_PLAIN, 1)).close()
    }

    @Test
    fun `without the C functions XNNPACK runs uncounted, and half precision is unavailable`() {
        val hidden = LiteRtEngines { privateLibrary("c") }
        val files = files("digits-float16")
        val bundle = readBundle(files)
        val backends = listOf(Backend.CPU, Backend.CPU_HALF)
        val (full, half) = verify(files, bundle, hidden, backends, threads = 1).map { it.outcome }
        assertNull(assertIs<Outcome.Passed>(full).measured.info.taken)
        assertEquals(EngineFailure.UNAVAILABLE, assertIs<Outcome.Refused>(half).kind)
    }

    @Test
    fun `without its library the GPU is unavailable, not replaced`() {
        val error = assertFailsWith<EngineException> {
            taken("digits-float16", Backend.GPU)
        }
        assertEquals(EngineFailure.UNAVAILABLE, error.kind, error.reason)
    }

    @Test
    fun `image for image the class is Python's, and the scores are within the tolerance`() {
        val digits = HeldOutDigits()
        for (name in NAMES) for (backend in listOf(Backend.CPU, Backend.CPU_PLAIN)) {
            val tolerance = readGolden(files(name), readBundle(files(name))).tolerances.scores
            val expected = digits.scores.getValue(name)
            var largest = 0f
            Classifier(readBundle(files(name)), create(name, backend)).use { classifier ->
                for ((i, image) in digits.images.withIndex()) {
                    val found = classifier.classify(image)
                    val best = expected[i].indices.maxBy { expected[i][it] }
                    assertEquals(best, found.classes[0], "$name on $backend: digit $i")
                    for (k in expected[i].indices) {
                        largest = maxOf(largest, abs(expected[i][k] - found.scores[k]))
                    }
                }
            }
            println("$name on $backend: scores differ by %.3g of %.3g".format(largest, tolerance))
            assertTrue(largest <= tolerance, "$name on $backend: $largest of $tolerance")
        }
    }

    /** `Interpreter.run` makes an array and a map for each call, too. */
    @Test
    fun `a run allocates only what the runtime's own binding does`() {
        for (name in NAMES) create(name, Backend.CPU).use { engine ->
            val description = readBundle(files(name)).description
            val input = directBuffer(description.input.bytes)
            val output = directBuffer(description.output.bytes)
            repeat(200) { engine.run(input, output) }
            val bytes = LongArray(100) { allocatedBy { engine.run(input, output) } }
            println("$name: ${bytes.sorted()[50]} bytes in each run")
            // A view of the output's memory, and an iterator over the map of outputs.
            assertTrue(bytes.sorted()[50] <= BYTES_OF_BINDING, "$name: ${bytes.toList()}")
        }
    }

    private fun directBuffer(bytes: Int) =
        ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())

    @Test
    fun `engines can be made and closed again and again`() {
        repeat(20) { for (name in NAMES) create(name, Backend.CPU).close() }
    }

    private fun taken(name: String, backend: Backend): Int? =
        create(name, backend).use { it.info.taken }

    private fun create(name: String, backend: Backend): Engine {
        val bundle: Bundle = readBundle(files(name))
        val model = readModel(files(name), bundle.description)
        return engines.create(model, EngineOptions(backend, 1))
    }

    private fun files(name: String) = FolderFiles(File("src/main/assets/bundles", name))

    companion object {
        private val NAMES = listOf("digits-float16", "digits-int8")
        private const val BYTES_OF_BINDING = 112L

        @JvmStatic
        @BeforeClass
        fun loadLibraries() = loadRuntimeOfApk()
    }
}
