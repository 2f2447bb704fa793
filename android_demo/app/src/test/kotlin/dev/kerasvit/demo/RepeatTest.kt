package dev.kerasvit.demo

import dev.kerasvit.core.Clock
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicLong
import kotlin.test.assertEquals
import kotlin.test.assertIs
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** A picture is classified again for the times of a model, which may be slow. */
@RunWith(RobolectricTestRunner::class)
class RepeatTest {
    @get:Rule
    val phone = Phone()

    @Test
    fun `a model of 20 seconds runs three times, and two of them count`() {
        val engines = start(millis = 20_000)
        assertEquals(3, engines.runs.get())
        val times = assertIs<Result.Answer>(phone.state.result).times
        assertEquals(2, times.count)
        assertEquals(20_000.0, times.inference.median)
    }

    @Test
    fun `a fast model runs three times to be warm, and twenty times that count`() {
        val engines = start(millis = 1)
        assertEquals(23, engines.runs.get())
        assertEquals(20, assertIs<Result.Answer>(phone.state.result).times.count)
    }

    @Test
    fun `a model that is neither stops after the time that repeating may take`() {
        val engines = start(millis = 100)
        assertEquals(9, engines.runs.get()) // One, those of 0.7 seconds, and the last.
        assertEquals(6, assertIs<Result.Answer>(phone.state.result).times.count)
    }

    @Test
    fun `each of two models has times, however slow they are`() {
        for (millis in listOf(1L, 300, 400, 600, 20_000)) {
            phone.app.endProcess()
            start(millis)
            phone.app.store(null).send(Event.Show(Screen.COMPARE))
            phone.settle()
            for (result in listOf(phone.state.result, phone.state.rivalResult)) {
                val times = assertIs<Result.Answer>(result).times
                assertEquals(millis.toDouble(), times.inference.median, "$millis ms")
            }
        }
    }

    @Test
    fun `of pictures that are chosen while the worker is busy only the last is classified`() {
        val engines = start(millis = 1)
        val before = engines.runs.get()
        val busy = CountDownLatch(1)
        phone.app.worker.post { busy.await() }
        for (sample in checkNotNull(phone.state.pictured).samples.take(2)) {
            phone.app.store(null).send(Event.ChooseSource(Source.Sample(sample.name)))
        }
        busy.countDown()
        phone.settle()
        assertEquals(before + 23, engines.runs.get())
    }

    private fun start(millis: Long): SlowEngines {
        val engines = SlowEngines(millis)
        phone.app.testEngines = engines
        phone.app.testClock = engines.clock
        phone.start()
        return engines
    }
}

/** Real engines, whose runs take so many milliseconds of a clock that does not move otherwise. */
private class SlowEngines(
    private val millis: Long,
    private val real: EngineFactory = jvmEngines(),
) : EngineFactory by real {
    val runs = AtomicInteger()
    private val now = AtomicLong()
    val clock = Clock { now.get() }

    override fun create(model: ByteBuffer, options: EngineOptions): Engine {
        val engine = real.create(model, options)
        return object : Engine by engine {
            override fun run(input: ByteBuffer, output: ByteBuffer) {
                engine.run(input, output)
                now.addAndGet(millis * 1_000_000)
                runs.incrementAndGet()
            }
        }
    }
}
