package dev.kerasvit.demo

import dev.kerasvit.android.LiteRtEngines
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readGolden
import dev.kerasvit.core.readModel
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.testing.HeldOutDigits
import dev.kerasvit.testing.allocatedBy
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

    /** A delegate puts one operator of its own in the place of those that it takes. */
    @Test
    fun `without XNNPACK, the runtime's own kernels run every operator`() {
        assertEquals(157, operatorsToRun(engines, Backend.CPU_PLAIN))
        assertTrue(operatorsToRun(engines, Backend.CPU) < 157)
    }

    /** What the runtime tells only classes of its own package. */
    private fun operatorsToRun(engines: LiteRtEngines, backend: Backend): Int {
        val bundle = readBundle(files("digits-float16"))
        val model = readModel(files("digits-float16"), bundle.description)
        return engines.create(model, EngineOptions(backend, 1)).use { engine ->
            // What the interpreter decides itself, it decides at the first run.
            val (input, output) = bundle.description.run { input.bytes to output.bytes }
            engine.run(directBuffer(input), directBuffer(output))
            val interpreter = engine.javaClass.getDeclaredField("interpreter")
                .apply { isAccessible = true }.get(engine)
            val count = interpreter.javaClass.superclass.getDeclaredMethod("getExecutionPlanLength")
            count.apply { isAccessible = true }.invoke(interpreter) as Int
        }
    }

    @Test
    fun `as many threads compute as were asked for`() {
        val counts = listOf(1, 4).map { threads ->
            val bundle = readBundle(files("digits-float16"))
            val model = readModel(files("digits-float16"), bundle.description)
            val before = tasks()
            engines.create(model, EngineOptions(Backend.CPU, threads)).use { tasks() - before }
        }
        assertEquals(listOf(0, 3), counts) // The caller's own thread is one of them.
    }

    /** The threads of this process. */
    private fun tasks(): Int = File("/proc/self/task").list().orEmpty().size

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
    fun `in a version that was not tested nothing is patched`() {
        val other = LiteRtEngines { "1.4.1" }
        val files = files("digits-float16")
        val backends = Backend.values().toList() - Backend.GPU
        val outcomes = verify(files, readBundle(files), other, backends, threads = 1)
            .associate { it.backend to it.outcome }
        val (full, plain) = listOf(Backend.CPU, Backend.CPU_PLAIN)
            .map { assertIs<Outcome.Passed>(outcomes.getValue(it)).measured }
        assertEquals("TensorFlow Lite 1.4.1", full.info.runtime)
        assertNull(full.info.taken)
        assertNull(plain.info.taken)
        val half = assertIs<Outcome.Refused>(outcomes.getValue(Backend.CPU_HALF))
        assertEquals(EngineFailure.UNAVAILABLE, half.kind)
        assertEquals("it needs the tested version, 2.16.1. Received: 1.4.1.", half.reason)
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
