package dev.kerasvit.demo

import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.semantics.getOrNull
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment

/** What must hold on every screen, in every form of the phone. */
@RunWith(RobolectricTestRunner::class)
class LayoutTest {
    @get:Rule
    val phone = Phone()
    private val layout = Layout(phone)

    @Test
    fun `nothing is cut off in large letters in Chinese`() =
        onEveryScreen("+zh-rCN", 2f, layout::checkTexts)

    @Test
    fun `nothing is cut off on a tablet from right to left`() =
        onEveryScreen("+ldrtl-w800dp-h1200dp", 2f, layout::checkTexts)

    @Test
    fun `on a phone, all is beside each other, named, and large enough to be touched`() =
        onEveryScreen("+port", 1f) { form ->
            layout.checkPlaces(form)
            layout.checkTargets(form)
            layout.checkSpoken(form)
            layout.checkBars(form)
        }

    @Test
    fun `in landscape, what scrolls ends above the system's bar`() =
        onEveryScreen("+w891dp-h411dp-land", 1f) { form ->
            layout.checkBars(form)
            for (node in phone.nodes()) {
                node.config.getOrNull(SemanticsActions.ScrollBy)?.action?.let { scroll ->
                    phone.rule.runOnUiThread { scroll(0f, 100_000f) }
                }
            }
            phone.settle()
            val end = phone.activity.window.decorView.height - phone.bars.bottom
            val lowest = phone.nodes().filter { SemanticsProperties.Text in it.config }
                .maxOf { it.boundsInRoot.bottom }
            assertTrue(lowest <= end, "$form: $lowest of $end")
        }

    @Test
    fun `the picture leaves room for what is said of it`() {
        for (qualifiers in listOf("+port", "+w891dp-h411dp-land", "+w1000dp-h700dp-land")) {
            RuntimeEnvironment.setQualifiers(qualifiers)
            phone.app.endProcess()
            phone.start()
            val probability = phone.nodes().first { node -> node.texts.any { it.endsWith("%") } }
            assertTrue(probability.boundsInRoot.height > 0, qualifiers)
        }
    }

    private fun onEveryScreen(qualifiers: String, fontScale: Float, check: (form: String) -> Unit) {
        RuntimeEnvironment.setQualifiers(qualifiers)
        RuntimeEnvironment.setFontScale(fontScale)
        phone.app.testEngines = RefusingEngines(Backend.GPU, EngineFailure.REFUSED, "a reason")
        phone.start()
        for (screen in Screen.values()) {
            phone.send(Event.Show(screen))
            if (screen == Screen.VERIFY) phone.send(Event.Verify)
            check("$screen, $qualifiers, letters x $fontScale")
        }
        phone.send(Event.Show(Screen.CLASSIFY))
        for (problem in allProblems) {
            phone.send(Event.SourceFailed(phone.state.settings.source!!, problem))
            check("$problem, $qualifiers, letters x $fontScale")
        }
    }
}
