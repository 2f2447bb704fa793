package dev.kerasvit.interpreter

import com.sun.jna.Library
import com.sun.jna.NativeLibrary
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readModel
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.testing.EngineTests
import dev.kerasvit.testing.testModel
import dev.kerasvit.testing.directBuffer
import dev.kerasvit.testing.modelOf
import java.io.File
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.jupiter.api.BeforeAll

/** The runtime of the APK, its x86-64 library, on this computer's JVM. */
class InterpreterEnginesTest : EngineTests(
    InterpreterEngines(),
    operatorsDelegated = mapOf("digits-float16" to 127, "digits-int8" to 138), // of 157 and 185
    // A view of the output's memory, and an iterator over the map of outputs.
    bytesPerRun = 112,
) {
    private val engines = InterpreterEngines()

    @Test
    fun `the runtime is the APK's`() {
        assertEquals("TensorFlow Lite 2.16.1", engines.runtime)
    }

    /** A delegate puts one operator of its own in the place of those that it takes. */
    @Test
    fun `without XNNPACK, the runtime's own kernels run every operator`() {
        assertEquals(157, operatorsToRun(Backend.CPU_PLAIN))
        assertTrue(operatorsToRun(Backend.CPU) < 157)
    }

    /** What the runtime tells only classes of its own package. */
    private fun operatorsToRun(backend: Backend): Int {
        val model = modelOf("digits-float16")
        return engines.create(model, EngineOptions(backend, 1)).use { engine ->
            // What the interpreter decides itself, it decides at the first run.
            val description = readBundle(testModel("digits-float16")).description
            engine.run(directBuffer(description.input.bytes), directBuffer(description.output.bytes))
            val interpreter = engine.javaClass.getDeclaredField("interpreter")
                .apply { isAccessible = true }.get(engine)
            val count = interpreter.javaClass.superclass.getDeclaredMethod("getExecutionPlanLength")
            count.apply { isAccessible = true }.invoke(interpreter) as Int
        }
    }

    @Test
    fun `in a version that was not tested nothing is patched`() {
        val other = InterpreterEngines { "1.4.1" }
        val bundle = readBundle(testModel("digits-float16"))
        val verdicts = verify(testModel("digits-float16"), bundle, other, threads = 1)
        assertEquals(engines.backends, verdicts.map { it.backend })
        for ((backend, outcome) in verdicts) {
            if (backend == Backend.CPU_PLAIN) {
                assertIs<Outcome.Passed>(outcome)
            } else {
                val refused = assertIs<Outcome.Refused>(outcome)
                assertEquals(EngineFailure.UNAVAILABLE, refused.kind)
                assertEquals(
                    "it needs the tested version, 2.16.1. Received: 1.4.1.",
                    refused.reason,
                )
            }
        }
    }

    @Test
    fun `without its library the GPU is unavailable, not replaced`() {
        val error = assertFailsWith<EngineException> {
            engines.create(modelOf("digits-float16"), EngineOptions(Backend.GPU, 1))
        }
        assertEquals(EngineFailure.UNAVAILABLE, error.kind, error.reason)
    }

    /** The app shows these words, and the version that `model.json` names. */
    @Test
    fun `a model that needs a newer runtime is refused in the runtime's words`() {
        val files = FolderFiles(File("../app/src/test/resources/fixtures/bundles/dynamic"))
        val bundle = readBundle(files)
        assertEquals("2.17.0", bundle.description.runtimeFloor)
        val error = assertFailsWith<EngineException> {
            engines.create(readModel(files, bundle.description), EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.TOO_OLD, error.kind, error.reason)
        assertTrue("'FULLY_CONNECTED' version '12'" in error.reason, error.reason)
    }

    companion object {
        /** The stand-ins of tools/android_libraries.py, then the runtime. */
        @JvmStatic
        @BeforeAll
        fun loadLibraries() {
            val folder = System.getProperty("android.libraries")
            System.setProperty("jna.library.path", folder)
            for (name in listOf("libc", "libm", "libdl", "liblog", "libtensorflowlite_jni")) {
                System.load(File(folder, "$name.so").path)
            }
            // The runtime looks for XNNPACK by name. Android looks in the runtime itself, too.
            val global = mapOf(Library.OPTION_OPEN_FLAGS to RTLD_LAZY_GLOBAL)
            NativeLibrary.getInstance("$folder/libtensorflowlite_jni.so", global)
        }

        private const val RTLD_LAZY_GLOBAL = 0x101
    }
}
