package dev.kerasvit.litert

import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import dev.kerasvit.testing.EngineTests
import dev.kerasvit.testing.LITERT_BYTES_PER_RUN
import dev.kerasvit.testing.testModel
import dev.kerasvit.testing.directBuffer
import dev.kerasvit.testing.liteRtFolder
import dev.kerasvit.testing.logSoftmax
import dev.kerasvit.testing.modelOf
import java.io.File
import java.lang.ref.WeakReference
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.io.TempDir

private fun enginesWith(cache: File? = null) =
    CompiledModelEngines("$liteRtFolder/libLiteRt.so", liteRtFolder, null, cache)

class CompiledModelEnginesTest : EngineTests(
    enginesWith(),
    operatorsDelegated = mapOf("digits-float16" to 157, "digits-int8" to 185),
    LITERT_BYTES_PER_RUN,
) {
    private val engines = enginesWith()

    @Test
    fun `the golden check passes on the GPU, which takes every operator`() {
        for (name in listOf("digits-float16", "digits-int8")) {
            val outcome = verifyOnGpu(name, engines)
            val info = assertIs<Outcome.Passed>(outcome, "$outcome").measured.info
            assertEquals(readBundle(testModel(name)).description.operators, info.delegated)
        }
    }

    private fun verifyOnGpu(name: String, engines: EngineFactory): Outcome {
        assumeTrue(File("/usr/lib/chromium").exists(), "its Vulkan device stands in for a GPU")
        val bundle = readBundle(testModel(name))
        val verdicts = verify(testModel(name), bundle, engines, listOf(Backend.GPU), threads = 1)
        println(report("a JVM", engines.runtime, bundle, verdicts))
        return verdicts.single().outcome
    }

    @Test
    fun `what the GPU compiled of a model is kept under the hash of its file`(
        @TempDir folder: File,
    ) {
        val outcome = verifyOnGpu("digits-float16", enginesWith(cache = folder))
        assertIs<Outcome.Passed>(outcome, "$outcome")
        val hash = readBundle(testModel("digits-float16")).description.sha256
        assertTrue(folder.list().orEmpty().single().startsWith(hash))
    }

    @Test
    fun `a file that the GPU takes in part is refused, not run by the CPU`() {
        assumeTrue(File("/usr/lib/chromium").exists(), "its Vulkan device stands in for a GPU")
        val error = assertFailsWith<EngineException> {
            engines.create(logSoftmax(), EngineOptions(Backend.GPU, 1))
        }
        assertEquals(EngineFailure.REFUSED, error.kind, error.reason)
        assertTrue("does not take the whole model" in error.reason, error.reason)
    }

    @Test
    fun `a phone without an NPU says so`() {
        val error = assertFailsWith<EngineException> {
            engines.create(modelOf("digits-int8"), EngineOptions(Backend.NPU, 1))
        }
        assertEquals(EngineFailure.UNAVAILABLE, error.kind, error.reason)
    }

    @Test
    fun `without its library every backend says so`() {
        for (backend in Backend.values()) {
            val error = assertFailsWith<EngineException> {
                CompiledModelEngines("absent").create(directBuffer(8), EngineOptions(backend, 1))
            }
            assertEquals(EngineFailure.UNAVAILABLE, error.kind, error.reason)
            assertTrue("absent" in error.reason, error.reason)
        }
    }

    @Test
    fun `a version whose structures are unknown is not called`(@TempDir packages: File) {
        File(packages, "ai_edge_litert-2.2.0.dist-info").mkdir()
        val error = assertFailsWith<EngineException> {
            CompiledModelEngines("$packages/ai_edge_litert/libLiteRt.so")
                .create(directBuffer(8), EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.UNAVAILABLE, error.kind)
        assertEquals("it needs the tested version, 2.3.0. Received: 2.2.0.", error.reason)
    }

    @Test
    fun `the runtime stays loaded when nobody refers to it`() {
        val library = WeakReference(privateLibrary("$liteRtFolder/libLiteRt.so"))
        repeat(3) { System.gc() }
        assertNotNull(library.get())
    }

    @Test
    fun `a closed engine does not reach native code`() {
        val engine = engines.create(modelOf("digits-int8"), EngineOptions(Backend.CPU, 1))
        engine.close()
        engine.close()
        assertFailsWith<IllegalStateException> {
            engine.run(directBuffer(12288), directBuffer(40))
        }
    }
}
