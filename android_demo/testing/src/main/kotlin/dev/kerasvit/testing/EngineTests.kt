package dev.kerasvit.testing

import dev.kerasvit.core.BundleFiles
import dev.kerasvit.core.Classifier
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.Orientation
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.RgbImage
import dev.kerasvit.core.YuvConverter
import dev.kerasvit.core.benchmark
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.readGolden
import dev.kerasvit.core.readModel
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineException
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import java.io.File
import java.nio.ByteBuffer
import java.nio.ByteOrder
import kotlin.math.abs
import kotlin.test.assertEquals
import kotlin.test.assertFailsWith
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlin.test.assertTrue
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.double
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive
import org.junit.jupiter.api.Test

/**
 * What each runtime must do with models of digits, and with the app's, on this computer's CPU.
 *
 * @param operatorsDelegated by XNNPACK, of each model of digits
 * @param bytesPerRun what the runtime's binding to Java allocates
 */
abstract class EngineTests(
    private val engines: EngineFactory,
    private val operatorsDelegated: Map<String, Int>,
    private val bytesPerRun: Long,
) {
    private val names = operatorsDelegated.keys
    private val cpus = listOf(Backend.CPU, Backend.CPU_HALF, Backend.CPU_PLAIN)

    @Test
    fun `the golden check passes, and half precision is honest`() {
        val models = names.map(::testModel) + appModels()
        assertEquals(5, models.size)
        for (files in models) {
            val bundle = readBundle(files)
            val verdicts = verify(files, bundle, engines, cpus, threads = 1)
            println(report("a JVM", engines.runtime, bundle, verdicts))
            val (full, half, plain) = verdicts.map { it.outcome }
            for (outcome in listOf(full, plain)) {
                assertEquals(0.0, assertIs<Outcome.Passed>(outcome).measured.tensorDifference)
            }
            // Few processors of computers have half precision; XNNPACK refuses it on the others.
            if (half is Outcome.Refused) {
                assertEquals(EngineFailure.REFUSED, half.kind, half.reason)
            } else {
                val difference = assertIs<Outcome.Passed>(half).measured.scoreDifference
                assertTrue("int8" in files.name || difference > 1e-4, "$difference")
            }
        }
    }

    @Test
    fun `a benchmark checks the scores cold and hot, and times the runs between`() {
        val lines = mutableListOf<String>()
        val options = EngineOptions(Backend.CPU, 1)
        benchmark(testModel("digits-float16"), engines, options, seconds = 1, tell = lines::add)
        val steps = lines.map { Json.parseToJsonElement(it).jsonObject }
        assertEquals(
            listOf("cold", "golden", "warm", "interval", "golden", "end"),
            steps.map { it.keys.single() },
        )
        val (cold, golden, warm, interval) = steps.map { it.values.single().jsonObject }
        assertEquals(engines.runtime, cold.getValue("runtime").jsonPrimitive.content)
        val delegated = cold.getValue("delegated").jsonPrimitive.int
        assertEquals(operatorsDelegated["digits-float16"], delegated)
        for (check in listOf(golden, steps[4].getValue("golden").jsonObject)) {
            val (difference, tolerance) = listOf("score_difference", "score_tolerance")
                .map { check.getValue(it).jsonPrimitive.double }
            assertTrue(difference <= tolerance, "$check")
        }
        assertEquals(100, warm.getValue("runs").jsonPrimitive.int)
        // Half of the runs last at least the median, so they fill at most the second.
        val runs = interval.getValue("runs").jsonPrimitive.int
        val half = runs / 2 * interval.getValue("median_ms").jsonPrimitive.double
        val end = interval.getValue("at_s").jsonPrimitive.double
        assertTrue(half in 1.0..1000 * end, "$interval")
    }

    @Test
    fun `the golden check fails for the scores of another file`() {
        // The golden file of float16 is stricter than int8 can be.
        val stricter = testModel("digits-float16")
        val files = object : BundleFiles by testModel("digits-int8") {
            override fun open(file: String) = stricter.open(file)
        }
        val bundle = readBundle(testModel("digits-int8"))
        val backends = listOf(Backend.CPU_PLAIN)
        val verdict = verify(files, bundle, engines, backends, threads = 1).single()
        val measured = assertIs<Outcome.Failed>(verdict.outcome).measured
        assertTrue(measured.tensorAgrees && !measured.scoresAgree)
        assertEquals(measured.expectedClass, measured.foundClass)
    }

    @Test
    fun `an engine is what it was asked for, and tells what XNNPACK took`() {
        for (name in names) for (backend in listOf(Backend.CPU, Backend.CPU_PLAIN)) {
            create(name, backend).use {
                assertEquals(backend, it.info.backend)
                assertEquals(1, it.info.threads)
                assertEquals(engines.runtime, it.info.runtime)
                val delegated = operatorsDelegated.takeIf { backend == Backend.CPU }?.get(name)
                assertEquals(delegated, it.info.delegated)
            }
        }
    }

    @Test
    fun `as many threads compute as were asked for, until the engine is closed`() {
        val model = modelOf("digits-float16")
        create("digits-float16", Backend.CPU).close() // The first one begins threads of JNA.
        val before = tasks()
        val counts = listOf(1, 4).map { threads ->
            engines.create(model, EngineOptions(Backend.CPU, threads)).use { tasks() - before }
        }
        assertEquals(listOf(0, 3), counts) // The caller's own thread is one of them.
        assertEquals(before, tasks())
    }

    /** The threads of this process, without those that the JVM begins and ends as it likes. */
    private fun tasks(): Int = File("/proc/self/task").listFiles().orEmpty().count { task ->
        val name = runCatching { File(task, "comm").readText() }.getOrDefault("VM ended just now")
        JVM_THREADS.none(name::startsWith)
    }

    @Test
    fun `image for image the class is Python's, and the scores are within the tolerance`() {
        val digits = HeldOutDigits()
        for (name in names) for (backend in listOf(Backend.CPU, Backend.CPU_PLAIN)) {
            val golden = readGolden(testModel(name), readBundle(testModel(name)))
            val tolerance = golden.tolerances.scores
            val expected = digits.scores.getValue(name)
            var largest = 0f
            var right = 0
            Classifier(readBundle(testModel(name)), create(name, backend)).use { classifier ->
                for ((i, image) in digits.images.withIndex()) {
                    val found = classifier.classify(image)
                    val best = expected[i].indices.maxBy { expected[i][it] }
                    assertEquals(best, found.classes[0], "$name on $backend: digit $i")
                    if (found.classes[0] == digits.targets[i]) right++
                    for (k in expected[i].indices) {
                        largest = maxOf(largest, abs(expected[i][k] - found.scores[k]))
                    }
                }
            }
            println("$name on $backend: scores differ by %.3g of %.3g".format(largest, tolerance))
            assertTrue(largest <= tolerance, "$name on $backend: $largest of $tolerance")
            assertEquals(353, right) // 98.3% of 359, as model.json says
        }
    }

    @Test
    fun `a camera's frame allocates only what the runtime's own binding does`() {
        for (name in names) {
            Classifier(readBundle(testModel(name)), create(name, Backend.CPU)).use { classifier ->
                val camera = Camera(640, 480)
                repeat(200) { camera.classifyNext(classifier) }
                val bytes = LongArray(100) { allocatedBy { camera.classifyNext(classifier) } }
                println("$name: ${bytes.sorted()[50]} bytes for each frame of 640 x 480")
                assertTrue(bytes.sorted()[50] <= bytesPerRun, "$name: ${bytes.toList()}")
            }
        }
    }

    @Test
    fun `bytes that are no model are refused`() {
        val noise = directBuffer(1000)
        for (i in 0 until 1000) noise.put(i, (i * 37).toByte())
        val error = assertFailsWith<EngineException> {
            engines.create(noise, EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.REFUSED, error.kind, error.reason)
    }

    @Test
    fun `an operator version of the future is told to be too old a runtime`() {
        val error = assertFailsWith<EngineException> {
            val model = withNewerOperator(modelOf("digits-float16"))
            engines.create(model, EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.TOO_OLD, error.kind, error.reason)
    }

    @Test
    fun `an operator that no runtime has is refused by name, before the model counts as loaded`() {
        for (backend in listOf(Backend.CPU, Backend.CPU_PLAIN)) {
            val error = assertFailsWith<EngineException> {
                engines.create(file("bessel"), EngineOptions(backend, 1))
            }
            assertEquals(EngineFailure.REFUSED, error.kind, error.reason)
            assertTrue("BesselI0e" in error.reason, error.reason)
        }
    }

    @Test
    fun `buffers of another size are refused`() {
        create("digits-float16", Backend.CPU_PLAIN).use { engine ->
            for ((input, output) in listOf(12 to 40, 12288 to 8)) {
                val error = assertFailsWith<EngineException> {
                    engine.run(directBuffer(input), directBuffer(output))
                }
                assertEquals(EngineFailure.REFUSED, error.kind)
                assertTrue("bytes" in error.reason, error.reason)
            }
        }
    }

    @Test
    fun `what XNNPACK does not have is not counted`() {
        engines.create(logSoftmax(), EngineOptions(Backend.CPU, 1)).use {
            assertEquals(2, it.info.delegated) // of 3
            it.run(directBuffer(40), directBuffer(40))
        }
    }

    @Test
    fun `a file of which XNNPACK takes nothing is refused, not run by others`() {
        val model = file("cumulative_sum")
        val error = assertFailsWith<EngineException> {
            engines.create(model, EngineOptions(Backend.CPU, 1))
        }
        assertEquals(EngineFailure.REFUSED, error.kind)
        assertEquals("XNNPACK takes none of the model's 1 operators", error.reason)
        val plain = engines.create(model, EngineOptions(Backend.CPU_PLAIN, 1))
        plain.use { assertNull(it.info.delegated) }
    }

    @Test
    fun `engines can be made and closed again and again`() {
        repeat(20) { for (name in names) create(name, Backend.CPU).close() }
    }

    private fun create(name: String, backend: Backend): Engine =
        engines.create(modelOf(name), EngineOptions(backend, 1))
}

/** A model of digits, of 8 x 8 pixels: small, and Python's scores of 359 pictures are known. */
fun testModel(name: String) = FolderFiles(File("../testing/models", name))

/** The models in the app. */
fun appModels(): List<FolderFiles> =
    checkNotNull(File("../app/src/main/assets/bundles").listFiles()).sorted().map(::FolderFiles)

fun modelOf(name: String): ByteBuffer =
    readModel(testModel(name), readBundle(testModel(name)).description)

/** A file of three operators; neither XNNPACK nor LiteRT's GPU accelerator has the second. */
fun logSoftmax(): ByteBuffer = file("log_softmax")

private fun file(name: String): ByteBuffer {
    val path = "/fixtures/$name.tflite"
    val stream = checkNotNull(EngineTests::class.java.getResourceAsStream(path))
    val bytes = stream.use { it.readBytes() }
    return directBuffer(bytes.size).also { for (i in bytes.indices) it.put(i, bytes[i]) }
}

fun directBuffer(bytes: Int): ByteBuffer =
    ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())

/** Planes as a phone gives them: NV21, in portrait. */
private class Camera(private val width: Int, private val height: Int) {
    private val luma = ByteBuffer.allocateDirect(width * height)
    private val chroma = List(2) { ByteBuffer.allocateDirect(width * height / 2) }
    private val converter = YuvConverter()
    private val frame = RgbImage(width, height)
    private val upright = RgbImage(height, width)
    private var count = 0

    fun classifyNext(classifier: Classifier) {
        luma.put(count, count.toByte())
        count++
        converter.convert(width, height, luma, chroma[0], chroma[1], width, width, 2, frame)
        classifier.classify(Orientation.ROTATED_90.apply(frame, upright))
    }
}

/** The model with version 99 of FULLY_CONNECTED, as if a later exporter had made it. */
private fun withNewerOperator(model: ByteBuffer): ByteBuffer {
    val copy = directBuffer(model.capacity()).order(ByteOrder.LITTLE_ENDIAN)
    for (i in 0 until model.capacity()) copy.put(i, model.get(i))
    copy.putInt(operatorVersion(copy, FULLY_CONNECTED), 99)
    return copy
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

private val JVM_THREADS = listOf("C1 ", "C2 ", "G1 ", "GC ", "VM ")
