package dev.kerasvit.jvm

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory

/** The golden check with the real runtime, on the app's bundles. */
class RealVerificationTest {
    private val factory = JvmEngines()

    @TestFactory
    fun `it passes on this processor`(): List<DynamicTest> = bundleFolders.map { folder ->
        dynamicTest(folder.name) {
            val files = FolderFiles(folder)
            val bundle = readBundle(files)
            val verdicts = verify(files, bundle, factory, threads = 1)
            println(report("a JVM", factory.runtime, bundle, verdicts))
            assertEquals(factory.backends, verdicts.map { it.backend })
            for (verdict in verdicts) check(verdict, bundle)
        }
    }

    @Test
    fun `it fails for the scores of another file`() {
        val bundle = readBundle(appBundle("digits-int8"))
        // The golden file of float16 is stricter than int8 can be.
        val stricter = appBundle("digits-float16")
        val files = object : BundleFiles by appBundle("digits-int8") {
            override fun open(file: String) = stricter.open(file)
        }
        val verdicts = verify(files, bundle, factory, listOf(Backend.CPU_PLAIN), threads = 1)
        val measured = assertIs<Outcome.Failed>(verdicts.single().outcome).measured
        assertTrue(measured.tensorAgrees && !measured.scoresAgree)
        assertEquals(measured.expectedClass, measured.foundClass)
    }

    @Test
    fun `half precision is another arithmetic, or refused`() {
        val files = appBundle("digits-float16")
        val backends = listOf(Backend.CPU, Backend.CPU_HALF)
        val (full, half) = verify(files, readBundle(files), factory, backends, threads = 1)
        if (isRefused(half)) return
        val (exact, rounded) = listOf(full, half).map {
            assertIs<Outcome.Passed>(it.outcome, "$it").measured.scoreDifference
        }
        assertTrue(rounded > 10 * exact, "$rounded, $exact")
    }

    private fun check(verdict: BackendVerdict, bundle: Bundle) {
        if (isRefused(verdict)) return
        val measured = assertIs<Outcome.Passed>(verdict.outcome, "$verdict").measured
        assertEquals(0.0, measured.tensorDifference)
        assertEquals(measured.expectedClass, measured.foundClass)
        assertEquals(verdict.backend, measured.info.backend)
        if (verdict.backend == Backend.CPU_PLAIN) {
            assertNull(measured.info.taken)
        } else {
            assertTrue(measured.info.taken!! in 1..bundle.description.operators)
        }
    }

    // Old processors have no half precision; then XNNPACK refuses the file, and gives no numbers.
    private fun isRefused(verdict: BackendVerdict): Boolean {
        val outcome = verdict.outcome
        return verdict.backend == Backend.CPU_HALF && outcome is Outcome.Refused &&
            outcome.kind == EngineFailure.REFUSED
    }
}
