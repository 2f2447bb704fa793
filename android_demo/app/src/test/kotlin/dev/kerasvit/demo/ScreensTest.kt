package dev.kerasvit.demo

import android.content.Intent
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.test.assertIsSelected
import androidx.compose.ui.test.onNodeWithText
import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.Outcome
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.Engine
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineOptions
import java.nio.ByteBuffer
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf

/** The other screens, and a picture of each in several forms. */
@RunWith(RobolectricTestRunner::class)
class ScreensTest {
    @get:Rule
    val phone = Phone()

    @Test
    fun `compare shows two models on the same picture`() {
        phone.start()
        phone.tap(R.string.screen_compare)
        val first = assertIs<Result.Answer>(phone.state.result)
        val second = assertIs<Result.Answer>(phone.state.rivalResult)
        assertEquals(listOf("digits-float16", "digits-int8"), listOf(first.model, second.model))
        assertEquals("4", first.rows[0].label)
        assertEquals("4", second.rows[0].label)
        assertTrue(first.rows != second.rows) // int8 rounds.
        assertTrue(phone.shows(R.string.compare_same))
        assertEquals(1, phone.nodes().count { SemanticsProperties.LiveRegion in it.config })
        for (answer in listOf(first, second)) {
            val names = phone.texts()
            for (row in answer.rows) {
                val times = names.count { it.startsWith("${answer.model}: ${row.label}, ") }
                assertEquals(1, times, "$names")
            }
        }
    }

    @Test
    fun `verify compares every backend with the exporter, and shares a report`() {
        val reason = "Following operations are not supported by GPU delegate: BATCH_MATMUL"
        phone.app.testEngines = RefusingEngines(Backend.GPU, EngineFailure.REFUSED, reason)
        phone.start()
        phone.tap(R.string.screen_verify)
        phone.tap(R.string.verify_start)
        val outcomes = phone.state.verification.verdicts.associate { it.backend to it.outcome }
        assertEquals(Backend.values().toSet(), outcomes.keys)
        assertIs<Outcome.Passed>(outcomes[Backend.CPU])
        assertIs<Outcome.Passed>(outcomes[Backend.CPU_PLAIN])
        assertIs<Outcome.Refused>(outcomes[Backend.GPU])
        assertTrue(phone.shows(reason))
        assertTrue(phone.shows("3 of 5 backends agree with the exporter; GPU, NPU were refused"))
        phone.tap(R.string.verify_share)
        val chooser = shadowOf(phone.activity).nextStartedActivity
        val sent = chooser.getParcelableExtra(Intent.EXTRA_INTENT, Intent::class.java)!!
        assertEquals(Intent.ACTION_SEND, sent.action)
        assertTrue(reason in sent.getStringExtra(Intent.EXTRA_TEXT)!!)
    }

    @Test
    fun `verify says so where the class differs though the scores are close enough`() {
        phone.start()
        phone.tap(R.string.screen_verify)
        phone.tap(R.string.verify_start)
        assertFalse(phone.shows("another class"))
        val passed = assertIs<Outcome.Passed>(phone.state.verification.verdicts[0].outcome).measured
        val other = passed.copy(foundClass = (passed.expectedClass!! + 1) % 10)
        val store = phone.app.store(null)
        store.send(Event.Verify)
        val verdict = BackendVerdict(Backend.CPU, Outcome.Passed(other))
        store.send(Event.BackendVerified(phone.state.verification.run, verdict))
        phone.settle()
        assertTrue(phone.shows("Agrees, but names another class"), "${phone.texts()}")
    }

    @Test
    fun `a check with other threads stops the one that runs, and has its own verdicts`() {
        val engines = WaitingEngines(threads = 2)
        phone.app.testEngines = engines
        phone.start()
        phone.tap(R.string.screen_verify)
        val store = phone.app.store(null)
        store.send(Event.ChooseThreads(2))
        store.send(Event.Verify)
        engines.begun.await()
        store.send(Event.ChooseThreads(3))
        store.send(Event.Verify)
        engines.mayGoOn.countDown()
        phone.settle()
        val verdicts = phone.state.verification.verdicts
        assertEquals(engines.backends, verdicts.map { it.backend })
        val passed = verdicts.map { it.outcome }.filterIsInstance<Outcome.Passed>()
        assertEquals(setOf(3), passed.map { it.measured.info.threads }.toSet())
        assertEquals(1, engines.created.count { it.threads == 2 })
        assertNotNull(phone.state.verification.report)
    }

    @Test
    fun `a check that is stopped ends after its backend, and can be run again`() {
        val engines = WaitingEngines(threads = 2)
        phone.app.testEngines = engines
        phone.start()
        phone.tap(R.string.screen_verify)
        assertFalse(phone.shows(R.string.verify_stop))
        val store = phone.app.store(null)
        store.send(Event.ChooseThreads(2))
        store.send(Event.Verify)
        engines.begun.await()
        // `tap` would wait for the worker, which waits for this thread.
        phone.rule.waitForIdle()
        assertFalse(phone.shows(R.string.verify_start))
        phone.touch(phone.activity.getString(R.string.verify_stop))
        assertFalse(phone.state.verification.isRunning)
        engines.mayGoOn.countDown()
        phone.settle()
        assertEquals(1, engines.created.count { it.threads == 2 }, "engines of this check")
        assertFalse(phone.shows(R.string.verify_stop))
        store.send(Event.ChooseThreads(1)) // Faster where tests share the processor.
        phone.tap(R.string.verify_start)
        assertEquals(engines.backends, phone.state.verification.verdicts.map { it.backend })
    }

    /** Loading with so many [threads] takes until the test lets it go on. */
    private class WaitingEngines(
        private val threads: Int,
        private val real: EngineFactory = jvmEngines(),
    ) : EngineFactory by real {
        val created = CopyOnWriteArrayList<EngineOptions>()
        val begun = CountDownLatch(1)
        val mayGoOn = CountDownLatch(1)

        override fun create(model: ByteBuffer, options: EngineOptions): Engine {
            created += options
            if (options.threads == threads) {
                begun.countDown()
                check(mayGoOn.await(1, TimeUnit.MINUTES))
            }
            return real.create(model, options)
        }
    }

    @Test
    fun `a search finds a class, and says if there is none`() {
        phone.start()
        phone.tap(R.string.screen_labels)
        waitFor("10 classes")
        assertEquals(2, phone.texts().count { it == "0" }) // The class and its number.
        phone.write("7")
        assertEquals("7", phone.state.settings.query)
        waitFor("1 class")
        phone.write("zebra")
        waitFor(phone.activity.getString(R.string.labels_none))
    }

    @Test
    fun `of 21,843 classes only those on the screen have rows, and each letter searches in all`() {
        phone.start()
        val labels = Watched(List(21_843) { "class $it, Genus_species-${it % 97}" })
        showLabels(labels)
        waitFor("21,843 classes")
        for (end in 1..5) {
            phone.write("21842".take(end))
            val rows = phone.texts().count { it.startsWith("class ") }
            assertTrue(rows <= 30, "$rows rows")
        }
        waitFor("1 class")
        assertTrue(phone.shows(labels[21_842]))
    }

    @Test
    fun `classes are searched on another thread than the screen's`() {
        phone.start()
        val labels = Watched(List(2_000) { "class $it" })
        showLabels(labels)
        waitFor("2,000 classes")
        labels.reads.clear()
        phone.write("class 1999")
        waitFor("1 class")
        val (main, others) = labels.reads.toList().partition { it.first == Thread.currentThread() }
        assertTrue(main.sumOf { it.second } < 100, "$main")
        assertTrue(others.sumOf { it.second } >= 2_000, "$others")
    }

    /** Knows how often which thread read it. */
    private class Watched(private val labels: List<String>) : AbstractList<String>() {
        val reads = ConcurrentHashMap<Thread, Int>()
        override val size get() = labels.size

        override fun get(index: Int): String {
            reads.merge(Thread.currentThread(), 1, Int::plus)
            return labels[index]
        }
    }

    private fun showLabels(labels: List<String>) {
        phone.send(Event.Show(Screen.LABELS))
        val model = phone.state.model!!
        phone.send(Event.ModelRead(model.copy(bundle = model.bundle!!.copy(labels = labels))))
    }

    private fun waitFor(text: String) = phone.rule.waitUntil(60_000) { phone.shows(text) }

    @Test
    fun `the list of models shows precision and size, and changes the model`() {
        phone.start()
        phone.tap("digits-float16")
        assertEquals(Screen.MODELS, phone.state.settings.screen)
        val tab = phone.activity.getString(R.string.screen_classify)
        phone.rule.onNodeWithText(tab).assertIsSelected()
        assertTrue(phone.shows("int8 · 231"))
        phone.tap("digits-int8")
        assertEquals("digits-int8", phone.state.settings.model)
        assertEquals("digits-int8", assertIs<Result.Answer>(phone.state.result).model)
    }
}
