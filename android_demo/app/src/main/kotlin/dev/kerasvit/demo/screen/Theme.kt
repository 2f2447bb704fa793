package dev.kerasvit.demo.screen

import android.os.Build
import androidx.compose.foundation.isSystemInDarkTheme
import androidx.compose.material3.ColorScheme
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Typography
import androidx.compose.material3.darkColorScheme
import androidx.compose.material3.dynamicDarkColorScheme
import androidx.compose.material3.dynamicLightColorScheme
import androidx.compose.material3.lightColorScheme
import androidx.compose.runtime.Composable
import androidx.compose.runtime.CompositionLocalProvider
import androidx.compose.runtime.remember
import androidx.compose.runtime.staticCompositionLocalOf
import androidx.compose.ui.graphics.Color
import androidx.compose.ui.platform.LocalConfiguration
import androidx.compose.ui.platform.LocalContext
import androidx.compose.ui.platform.LocalDensity
import androidx.compose.ui.platform.LocalLayoutDirection
import androidx.compose.ui.text.TextStyle
import androidx.compose.ui.text.style.TextAlign
import androidx.compose.ui.text.style.TextDirection
import androidx.compose.ui.unit.LayoutDirection
import androidx.compose.ui.unit.dp

/** The app's colours. */
typealias Colours = @Composable (isDark: Boolean) -> ColorScheme

/** Those of the wallpaper where Android gives them, else the app's own. */
val phoneColours: Colours = { isDark ->
    val context = LocalContext.current
    when {
        Build.VERSION.SDK_INT < Build.VERSION_CODES.S -> ownColours(isDark)
        isDark -> dynamicDarkColorScheme(context)
        else -> dynamicLightColorScheme(context)
    }
}

/** Teal, on greys with a little of it. */
fun ownColours(isDark: Boolean): ColorScheme = if (isDark) DARK else LIGHT

/** Colours, and the words of the phone's language. */
@Composable
internal fun Theme(colours: Colours, content: @Composable () -> Unit) {
    val context = LocalContext.current
    val wording = remember(LocalConfiguration.current) { Wording(context.resources) }
    CompositionLocalProvider(LocalWording provides wording) {
        MaterialTheme(colours(isSystemInDarkTheme()), typography = typography(), content = content)
    }
}

// On a phone in Arabic the words are English: each text follows its own direction, so that a full
// stop stands at the end of its sentence.
@Composable
private fun typography(): Typography {
    val isRtl = LocalLayoutDirection.current == LayoutDirection.Rtl
    fun TextStyle.placed() = copy(
        textDirection = TextDirection.Content,
        textAlign = if (isRtl) TextAlign.Right else TextAlign.Left,
    )
    return with(Typography()) {
        copy(
            headlineMedium = headlineMedium.placed(),
            titleLarge = titleLarge.placed(),
            titleMedium = titleMedium.placed(),
            titleSmall = titleSmall.placed(),
            bodyLarge = bodyLarge.placed(),
            bodyMedium = bodyMedium.placed(),
            bodySmall = bodySmall.placed(),
            labelLarge = labelLarge.placed(),
            labelMedium = labelMedium.placed(),
        )
    }
}

internal val LocalWording = staticCompositionLocalOf<Wording> { error("no Theme around this") }

/** Whether results have their place beside the picture. */
@Composable
internal fun isWide(): Boolean = LocalConfiguration.current.screenWidthDp >= 600

/** Whether two columns of letters would be one word wide each. */
@Composable
internal fun hasLargeLetters(): Boolean = LocalDensity.current.fontScale > 1.3f

/** The distance to the edges of a screen, and between its parts. */
internal val MARGIN = 16.dp

private val LIGHT = lightColorScheme(
    primary = Color(0xFF006A63),
    onPrimary = Color(0xFFFFFFFF),
    primaryContainer = Color(0xFFA9EFE6),
    onPrimaryContainer = Color(0xFF00201D),
    secondary = Color(0xFF4A6360),
    onSecondary = Color(0xFFFFFFFF),
    secondaryContainer = Color(0xFFCCE8E4),
    onSecondaryContainer = Color(0xFF051F1D),
    tertiary = Color(0xFF47617A),
    onTertiary = Color(0xFFFFFFFF),
    tertiaryContainer = Color(0xFFCEE5FF),
    onTertiaryContainer = Color(0xFF001D33),
    error = Color(0xFFBA1A1A),
    onError = Color(0xFFFFFFFF),
    errorContainer = Color(0xFFFFDAD6),
    onErrorContainer = Color(0xFF410002),
    background = Color(0xFFF4FBF8),
    onBackground = Color(0xFF161D1C),
    surface = Color(0xFFF4FBF8),
    onSurface = Color(0xFF161D1C),
    surfaceVariant = Color(0xFFDAE5E2),
    onSurfaceVariant = Color(0xFF3F4947),
    surfaceTint = Color(0xFF006A63),
    outline = Color(0xFF6F7977),
    outlineVariant = Color(0xFFBEC9C6),
    surfaceContainerLowest = Color(0xFFFFFFFF),
    surfaceContainerLow = Color(0xFFEFF5F3),
    surfaceContainer = Color(0xFFE9EFED),
    surfaceContainerHigh = Color(0xFFE3EAE7),
    surfaceContainerHighest = Color(0xFFDDE4E2),
)

private val DARK = darkColorScheme(
    primary = Color(0xFF80D5CB),
    onPrimary = Color(0xFF003733),
    primaryContainer = Color(0xFF00504A),
    onPrimaryContainer = Color(0xFFA9EFE6),
    secondary = Color(0xFFB0CCC8),
    onSecondary = Color(0xFF1C3532),
    secondaryContainer = Color(0xFF324B48),
    onSecondaryContainer = Color(0xFFCCE8E4),
    tertiary = Color(0xFFAFC9E7),
    onTertiary = Color(0xFF17324A),
    tertiaryContainer = Color(0xFF2F4961),
    onTertiaryContainer = Color(0xFFCEE5FF),
    error = Color(0xFFFFB4AB),
    onError = Color(0xFF690005),
    errorContainer = Color(0xFF5F1412),
    onErrorContainer = Color(0xFFFFDAD6),
    background = Color(0xFF0E1513),
    onBackground = Color(0xFFDDE4E2),
    surface = Color(0xFF0E1513),
    onSurface = Color(0xFFDDE4E2),
    surfaceVariant = Color(0xFF3F4947),
    onSurfaceVariant = Color(0xFFBEC9C6),
    surfaceTint = Color(0xFF80D5CB),
    outline = Color(0xFF899391),
    outlineVariant = Color(0xFF3F4947),
    surfaceContainerLowest = Color(0xFF090F0E),
    surfaceContainerLow = Color(0xFF161D1C),
    surfaceContainer = Color(0xFF1A211F),
    surfaceContainerHigh = Color(0xFF252B2A),
    surfaceContainerHighest = Color(0xFF303635),
)
