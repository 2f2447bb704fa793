package dev.kerasvit.demo

import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.engine.Backend
import kotlin.test.assertEquals
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** A phone may hold one large model and not two: what is no longer used is closed first. */
@RunWith(RobolectricTestRunner::class)
class ClosedEnginesTest {
    private val phone = Phone()
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

    private fun after(expected: Int, event: () -> Event) {
        phone.app.store(null).send(event())
        phone.settle()
        assertEquals(expected, engines.open.get(), "${event()}")
    }
}
