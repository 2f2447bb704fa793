package dev.kerasvit.demo

import android.os.Build
import dev.kerasvit.core.Outcome
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.engine.Backend
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

/** The app on Android 8, the oldest that it runs on, and on Android 14. The others run on 15. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26, 34])
class OlderAndroidTest {
    @get:Rule
    val phone = Phone()

    @Test
    fun `models are read from the assets, and pictures classified`() {
        phone.withAppModels().start()
        assertEquals("horse", assertIs<Result.Answer>(phone.state.result).rows[0].label)
        phone.tap(phone.activity.getString(R.string.source_sample, "moose"))
        assertEquals("deer", assertIs<Result.Answer>(phone.state.result).rows[0].label)
        assertTrue(phone.shows(R.string.run_title))
        if (Build.VERSION.SDK_INT == Build.VERSION_CODES.O) phone.screenshot("classify_android_8")
    }

    @Test
    fun `every screen is drawn, and none lies under the system's bars`() {
        phone.start()
        for (screen in Screen.values()) {
            phone.send(Event.Show(screen))
            assertTrue(phone.texts().size > 4, "$screen: ${phone.texts()}")
            val hasBars = Build.VERSION.SDK_INT >= Build.VERSION_CODES.R // See [Phone.draw].
            if (hasBars) Layout(phone).checkBars("$screen")
        }
    }

    @Test
    fun `the golden check passes`() {
        phone.start()
        phone.tap(R.string.screen_verify)
        phone.tap(R.string.verify_start)
        val outcomes = phone.state.verification.verdicts.associate { it.backend to it.outcome }
        assertIs<Outcome.Passed>(outcomes[Backend.CPU])
        assertIs<Outcome.Passed>(outcomes[Backend.CPU_PLAIN])
        assertTrue(phone.shows(R.string.verify_share))
    }

    @Test
    fun `back leads to the first screen`() {
        phone.start()
        phone.tap(R.string.screen_labels)
        phone.goBack()
        assertEquals(Screen.CLASSIFY, phone.state.settings.screen)
    }
}
