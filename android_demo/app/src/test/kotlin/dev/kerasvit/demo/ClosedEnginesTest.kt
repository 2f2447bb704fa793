package dev.kerasvit.demo

import android.content.ComponentCallbacks2
import android.net.Uri
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf

/** A phone may hold one large model and not two: what is no longer used is closed first. */
@RunWith(RobolectricTestRunner::class)
class ClosedEnginesTest {
    @get:Rule
    val phone = Phone()
    private val engines = CountedEngines()

    @Test
    fun `only the models that are shown are loaded`() {
        phone.app.testEngines = engines
        phone.start()
        assertEquals(1, engines.open.get())
        after(1) { Event.ChooseBackend(Backend.CPU_PLAIN) }
        after(1) { Event.ChooseThreads(1) }
        after(1) { Event.ChooseModel("digits-int8") }
        after(2) { Event.Show(Screen.COMPARE) }
        after(1) { Event.Show(Screen.CLASSIFY) }
        assertEquals(2, engines.most.get())
        phone.app.store(null).send(Event.Show(Screen.VERIFY))
        after(0) { Event.Verify }
    }

    @Test
    fun `in the background, memory is given back until the app is shown again`() {
        phone.app.testEngines = engines
        phone.start()
        val before = assertIs<Result.Answer>(phone.state.result)
        phone.controller.pause().stop()
        trim(ComponentCallbacks2.TRIM_MEMORY_UI_HIDDEN)
        assertEquals(1, engines.open.get()) // The user may be choosing a photo.
        trim(ComponentCallbacks2.TRIM_MEMORY_BACKGROUND)
        assertEquals(0, engines.open.get())
        assertNull(phone.state.preview)
        phone.controller.restart().start().resume()
        phone.settle()
        assertEquals(1, engines.open.get())
        assertNotNull(phone.state.preview)
        assertEquals(before.rows, assertIs<Result.Answer>(phone.state.result).rows)
    }

    @Test
    fun `where a picture finds no memory, that of the model is given back`() {
        phone.app.testEngines = engines
        val photo = Uri.parse("content://photos/1")
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(photo) { throw OutOfMemoryError() }
        phone.start()
        assertEquals(1, engines.open.get())
        phone.send(Event.ChooseSource(Source.Picture("$photo")))
        assertEquals(Problem.OutOfMemory, phone.state.sourceProblem)
        assertEquals(0, engines.open.get())
    }

    private fun trim(level: Int) {
        phone.app.onTrimMemory(level)
        phone.settle()
    }

    private fun after(expected: Int, event: () -> Event) {
        phone.app.store(null).send(event())
        phone.settle()
        assertEquals(expected, engines.open.get(), "${event()}")
    }
}
