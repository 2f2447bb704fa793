package dev.kerasvit.demo

import android.os.Build
import androidx.activity.ComponentActivity
import androidx.activity.compose.setContent
import androidx.compose.material3.MaterialTheme
import androidx.compose.ui.graphics.Color
import androidx.compose.ui.test.junit4.v2.createEmptyComposeRule
import dev.kerasvit.demo.screen.Theme
import dev.kerasvit.demo.screen.ownColours
import dev.kerasvit.demo.screen.phoneColours
import kotlin.test.assertEquals
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.Robolectric
import org.robolectric.RobolectricTestRunner
import org.robolectric.annotation.Config

/** Android 12 and newer give the wallpaper's colours. */
@RunWith(RobolectricTestRunner::class)
@Config(sdk = [26, 34])
class ColoursTest {
    @get:Rule
    val rule = createEmptyComposeRule()

    @Test
    fun `colours are the wallpaper's where Android gives them, else the app's own`() {
        val activity = Robolectric.buildActivity(ComponentActivity::class.java).setup().get()
        var primary: Color? = null
        activity.setContent { Theme(phoneColours) { primary = MaterialTheme.colorScheme.primary } }
        rule.waitForIdle()
        val isOwn = Build.VERSION.SDK_INT < Build.VERSION_CODES.S
        assertEquals(isOwn, primary == ownColours(isDark = false).primary)
    }
}
