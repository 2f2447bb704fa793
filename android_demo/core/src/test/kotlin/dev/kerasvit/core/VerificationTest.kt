package dev.kerasvit.core

import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import java.nio.ByteBuffer
import kotlin.test.Test
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertTrue

class VerificationTest {
    private val files = sampleFiles()
    private val bundle = readBundle(files)

    @Test
    fun `a correct engine passes on every backend`() {
        val factory = FakeFactory()
        val verdicts = verify(files, bundle, factory, threads = 3)
        assertEquals(Backend.values().toList(), verdicts.map { it.backend })
        for (verdict in verdicts) {
            val measured = assertIs<Outcome.Passed>(verdict.outcome).measured
            assertEquals(0.0, measured.tensorDifference)
            assertEquals(0.0, measured.scoreDifference)
            assertEquals(1 to 1, measured.run { expectedClass to foundClass })
            assertEquals(EngineInfo(verdict.backend, 3, "Fake 1.0", 1), measured.info)
            assertTrue(measured.inferenceMillis > 0)
        }
        assertTrue(factory.made.size == 5 && factory.made.all { it.isClosed })
        assertTrue(factory.models.all { it.isDirect && it.capacity() == 100 })
    }

    @Test
    fun `only the backends asked for are tried`() {
        val factory = FakeFactory()
        verify(files, bundle, factory, listOf(Backend.GPU))
        assertEquals(listOf(Backend.GPU), factory.made.map { it.info.backend })
    }

    @Test
    fun `the time of a very slow model is measured, too`() {
        var now = 0L
        val engine = FakeEngine(EngineInfo(Backend.CPU, 1, "", 1)) { now += 2_100_000_000 }
        val outcome = measure(engine, bundle, readGolden(files, bundle)) { now }
        assertEquals(2100.0, assertIs<Outcome.Passed>(outcome).measured.inferenceMillis)
    }

    @Test
    fun `of equal scores the first class is the best, as in Python`() {
        val golden = readGolden(files, bundle).run {
            Golden(image, tensor, floatArrayOf(11.5f, 11.5f, -2f), tolerances)
        }
        val engine = FakeEngine(EngineInfo(Backend.CPU, 1, "", 1)) { it.put(0, 20) }
        val measured = assertIs<Outcome.Passed>(measure(engine, bundle, golden)).measured
        assertEquals(0 to 0, measured.run { expectedClass to foundClass })
    }

    @Test
    fun `half precision has its own tolerance`() {
        // One step of the output is 0.5; tolerances are 0.75 and 1.5.
        val expected = mapOf(
            1 to setOf(),
            2 to setOf(Backend.CPU, Backend.CPU_PLAIN),
            4 to Backend.values().toSet(),
        )
        for ((steps, failing) in expected) {
            val verdicts = verify(files, bundle, off(steps))
            val failed = verdicts.filter { it.outcome is Outcome.Failed }.map { it.backend }
            assertEquals(failing, failed.toSet(), "$steps steps")
        }
        val outcome = verify(files, bundle, off(2), listOf(Backend.CPU)).single().outcome
        val measured = assertIs<Outcome.Failed>(outcome).measured
        assertEquals(1.0, measured.scoreDifference)
        assertTrue(measured.tensorAgrees && !measured.scoresAgree)
    }

    @Test
    fun `without a tolerance of half precision the usual one holds`() {
        val strict = files.edit("golden.json", ", \"scores_half_precision\": 1.5", "")
        val outcome = verify(strict, bundle, off(2), listOf(Backend.GPU)).single().outcome
        assertEquals(0.75, assertIs<Outcome.Failed>(outcome).measured.scoreTolerance)
    }

    @Test
    fun `another class is shown`() {
        val factory = FakeFactory { info -> FakeEngine(info) { it.put(0, 90) } }
        val outcome = verify(files, bundle, factory, listOf(Backend.CPU)).single().outcome
        val measured = assertIs<Outcome.Failed>(outcome).measured
        assertEquals(1 to 0, measured.run { expectedClass to foundClass })
    }

    @Test
    fun `the other answer of a single score is told`() {
        val files = oneScoreFiles()
        val one = readBundle(files)
        val right = verify(files, one, FakeFactory(), listOf(Backend.CPU)).single().outcome
        assertEquals("cat", one.labels[assertIs<Outcome.Passed>(right).measured.foundClass!!])
        val factory = FakeFactory { info -> FakeEngine(info) { it.put(0, -4) } } // -0.5
        val verdicts = verify(files, one, factory, listOf(Backend.CPU))
        assertIs<Outcome.Failed>(verdicts.single().outcome)
        val text = report("Test phone", factory.runtime, one, verdicts)
        assertTrue("  class: not cat; expected cat\n" in text, text)
    }

    @Test
    fun `features are compared as they are, and name no class`() =
        comparesWithoutClasses(featuresFiles())

    @Test
    fun `a feature map is compared as it is, and names no class`() =
        comparesWithoutClasses(mapFiles())

    @Test
    fun `both the scores of masks and their classes must agree`() {
        val files = segmenterFiles()
        val near = assertIs<Outcome.Passed>(verifyMasks(files) {}).measured
        assertEquals(OtherPixels(0.0, 0.125), near.otherPixels)
        assertTrue(near.classAgrees && near.foundClass == null)
        // The same class has another score.
        val far = assertIs<Outcome.Failed>(verifyMasks(files) { it.put(1, 24) }).measured
        assertEquals(2.0 to 0.0, far.run { scoreDifference to otherPixels?.part })
        // The scores would be near enough.
        val lenient = files.edit("golden.json", "\"scores\": 0.75", "\"scores\": 50.0")
        val other = assertIs<Outcome.Failed>(verifyMasks(lenient) { it.put(0, 90) }).measured
        assertTrue(other.scoresAgree && !other.pixelsAgree)
        val verdict = BackendVerdict(Backend.CPU, Outcome.Failed(other))
        val text = report("Test phone", "Fake 1.0", readBundle(lenient), listOf(verdict))
        assertTrue("  pixels of another class: 100.00%, at most 12.50%: TOO MUCH\n" in text, text)
        assertFalse("  class:" in text)
    }

    @Test
    fun `the difference of a class map is the part of the pixels with another class`() {
        val files = classMapFiles()
        val one = assertIs<Outcome.Passed>(verifyMasks(files) { it.put(0, 9) }).measured
        assertEquals(1 / 3.0, one.scoreDifference)
        assertEquals(null, one.otherPixels)
        val two = verifyMasks(files) { it.put(0, 9).put(1, 9) }
        val verdicts = listOf(BackendVerdict(Backend.CPU, assertIs<Outcome.Failed>(two)))
        val text = report("Test phone", "Fake 1.0", readBundle(files), verdicts)
        assertTrue("  pixels of another class: 66.67%, at most 50.00%: TOO MUCH\n" in text, text)
        assertFalse("  scores:" in text)
    }

    private fun verifyMasks(files: MemoryFiles, change: (ByteBuffer) -> Unit): Outcome {
        val factory = FakeFactory { FakeEngine(it, change) }
        return verify(files, readBundle(files), factory, listOf(Backend.CPU)).single().outcome
    }

    private fun comparesWithoutClasses(files: MemoryFiles) {
        val features = readBundle(files)
        val right = verify(files, features, FakeFactory(), listOf(Backend.CPU))
        val measured = assertIs<Outcome.Passed>(right.single().outcome).measured
        assertEquals(0.0, measured.scoreDifference)
        assertTrue(measured.classAgrees && measured.foundClass == null)
        assertFalse("class" in report("Test phone", "Fake 1.0", features, right))
        assertIs<Outcome.Failed>(verify(files, features, off(2), listOf(Backend.CPU))[0].outcome)
    }

    @Test
    fun `another class is told although the scores are within their tolerance`() {
        val lenient = files.edit("golden.json", "\"scores\": 0.75", "\"scores\": 50.0")
        val factory = FakeFactory { info -> FakeEngine(info) { it.put(0, 90) } }
        val verdicts = verify(lenient, bundle, factory, listOf(Backend.CPU))
        val measured = assertIs<Outcome.Passed>(verdicts.single().outcome).measured
        assertEquals(1 to 0, measured.run { expectedClass to foundClass })
        val text = report("Test phone", factory.runtime, bundle, verdicts)
        assertTrue("CPU: within the tolerances, but ANOTHER CLASS\n" in text, text)
        assertTrue("  class: cat; expected dog\n" in text, text)
        assertFalse("passed" in text, text)
    }

    @Test
    fun `a tensor that Python would not make fails`() {
        val input = bundle.description.input.copy(interpolation = Interpolation.NEAREST)
        val other = bundle.copy(description = bundle.description.copy(input = input))
        val outcome = verify(files, other, FakeFactory(), listOf(Backend.CPU)).single().outcome
        val measured = assertIs<Outcome.Failed>(outcome).measured
        assertFalse(measured.tensorAgrees)
        assertTrue(measured.scoresAgree && measured.tensorDifference > 0.01)
    }

    @Test
    fun `a refusal keeps the runtime's words and the others go on`() {
        val reason = "failed to delegate BATCH_MATMUL node #103"
        val factory = FakeFactory { info ->
            if (info.backend == Backend.CPU_HALF) {
                throw EngineException(EngineFailure.REFUSED, reason)
            }
            FakeEngine(info)
        }
        val outcomes = verify(files, bundle, factory).associate { it.backend to it.outcome }
        assertEquals(Outcome.Refused(EngineFailure.REFUSED, reason), outcomes[Backend.CPU_HALF])
        assertEquals(4, outcomes.values.count { it is Outcome.Passed })
    }

    @Test
    fun `running out of memory is a refusal, while loading and while running`() {
        val loading = FakeFactory { throw OutOfMemoryError("1 GB") }
        val running = FakeFactory { info -> FakeEngine(info) { throw OutOfMemoryError("1 GB") } }
        for (factory in listOf(loading, running)) {
            val outcome = verify(files, bundle, factory, listOf(Backend.CPU)).single().outcome
            assertEquals(Outcome.Refused(EngineFailure.OUT_OF_MEMORY, "1 GB"), outcome)
            assertTrue(factory.made.all { it.isClosed })
        }
    }

    @Test
    fun `an engine that fails while running is closed`() {
        val factory = FakeFactory { info ->
            FakeEngine(info) { throw EngineException(EngineFailure.REFUSED, "lost the device") }
        }
        val outcome = verify(files, bundle, factory, listOf(Backend.GPU)).single().outcome
        assertEquals(Outcome.Refused(EngineFailure.REFUSED, "lost the device"), outcome)
        assertTrue(factory.made.single().isClosed)
    }

    @Test
    fun `an unreadable golden file is the bundle's problem`() {
        assertFailsWith<BundleException> {
            verify(files.with("golden.json", "{}"), bundle, FakeFactory())
        }
    }

    @Test
    fun `the report says all that is needed to help from afar`() {
        val factory = FakeFactory { info ->
            when (info.backend) {
                Backend.GPU -> throw EngineException(EngineFailure.UNAVAILABLE, "no libOpenCL.so")
                Backend.NPU -> throw EngineException(EngineFailure.UNAVAILABLE, "no NPU")
                Backend.CPU_PLAIN -> FakeEngine(info) { it.put(0, 90) }
                else -> FakeEngine(info)
            }
        }
        val verdicts = verify(files, bundle, factory)
        val text = report("Test phone, Android 16", factory.runtime, bundle, verdicts)
            .replace(Regex("[0-9.]+ ms"), "T ms")
        assertEquals(
            """
            keras_vit: the golden check on this device
            device: Test phone, Android 16
            runtime: Fake 1.0 (the file needs 2.9.0 or newer)
            bundle: sample (ViT-Sample, float32)
            model.tflite: 100 bytes, sha256 ${bundle.description.sha256}

            CPU: passed
              input: differs by 0.00, allowed are 1.00e-06
              scores: differs by 0.00, allowed are 0.750
              class: dog
              time: T ms, 2 threads
              delegated: 1 of 5 operators

            CPU_HALF: passed
              input: differs by 0.00, allowed are 1.00e-06
              scores: differs by 0.00, allowed are 1.50
              class: dog
              time: T ms, 2 threads
              delegated: 1 of 5 operators

            CPU_PLAIN: FAILED
              input: differs by 0.00, allowed are 1.00e-06
              scores: differs by 43.0, allowed are 0.750: TOO MUCH
              class: cat; expected dog
              time: T ms, 2 threads
              delegated: 1 of 5 operators

            GPU: not run, UNAVAILABLE: no libOpenCL.so

            NPU: not run, UNAVAILABLE: no NPU
            """.trimIndent() + "\n",
            text,
        )
    }

    private fun off(steps: Int) = FakeFactory { info ->
        FakeEngine(info) { it.put(2, (it.get(2) + steps).toByte()) }
    }
}
