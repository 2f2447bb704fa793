package dev.kerasvit.jvm

import dev.kerasvit.core.Backend
import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Bundle
import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertIs
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
        val expected = assertIs<Outcome.Passed>(full.outcome).measured
        val measured = when (val outcome = half.outcome) {
            is Outcome.Passed -> outcome.measured
            is Outcome.Failed -> outcome.measured
            is Outcome.Refused -> return assertTrue(outcome.reason.isNotBlank())
        }
        assertTrue(measured.scoreDifference > 10 * expected.scoreDifference, "$measured")
    }

    private fun check(verdict: BackendVerdict, bundle: Bundle) {
        val outcome = verdict.outcome
        // Whether a processor computes in half precision, and how well, differs; it must say so.
        if (verdict.backend == Backend.CPU_HALF && outcome is Outcome.Refused) {
            assertTrue(outcome.reason.isNotBlank())
            return
        }
        val measured = assertIs<Outcome.Passed>(outcome, "$verdict").measured
        assertEquals(0.0, measured.tensorDifference)
        assertEquals(measured.expectedClass, measured.foundClass)
        assertEquals(verdict.backend, measured.info.backend)
        assertTrue(measured.info.steps!! in 1..bundle.description.operators)
    }
}
