package dev.kerasvit.demo.screen

import androidx.activity.compose.BackHandler
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.consumeWindowInsets
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.imePadding
import androidx.compose.foundation.layout.padding
import androidx.compose.material3.Icon
import androidx.compose.material3.NavigationBar
import androidx.compose.material3.NavigationBarItem
import androidx.compose.material3.NavigationRail
import androidx.compose.material3.NavigationRailItem
import androidx.compose.material3.Scaffold
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.runtime.CompositionLocalProvider
import androidx.compose.runtime.saveable.rememberSaveableStateHolder
import androidx.compose.ui.Modifier
import androidx.compose.ui.platform.LocalDensity
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.unit.Density
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.backFrom

/** The whole window: the current screen, and the way to the others. */
@Composable
internal fun App(state: UiState, send: (Event) -> Unit, host: Host) {
    BackHandler(backFrom(state.settings) != null) { send(Event.Back) }
    val isWide = isWide()
    Scaffold(
        bottomBar = { if (!isWide) Bar(state, send) },
        contentWindowInsets = WindowInsets(0), // Pictures are drawn behind the system's bars.
    ) { room ->
        Row(Modifier.padding(room).consumeWindowInsets(room).imePadding().fillMaxSize()) {
            if (isWide) Rail(state, send)
            Current(state, send, host)
        }
    }
    if (state.areSettingsShown) SettingsSheet(state, send)
    state.dialog?.let { ModelDialog(it, send) }
}

/** Each screen is where it was left. */
@Composable
private fun Current(state: UiState, send: (Event) -> Unit, host: Host) {
    val screen = state.settings.screen
    rememberSaveableStateHolder().SaveableStateProvider(screen) {
        Box(Modifier.fillMaxSize()) {
            when (screen) {
                Screen.CLASSIFY -> ClassifyScreen(state, send, host)
                Screen.COMPARE -> CompareScreen(state, send, host)
                Screen.VERIFY -> VerifyScreen(state, send, host)
                Screen.LABELS -> LabelsScreen(state, send, host)
                Screen.MODELS -> ModelsScreen(state, send, host)
            }
        }
    }
}

@Composable
private fun Bar(state: UiState, send: (Event) -> Unit) = NavigationBar {
    for (destination in Destination.values()) {
        NavigationBarItem(
            selected = destination.isAt(state),
            onClick = { send(Event.Show(destination.screen)) },
            icon = { Icon(painterResource(destination.icon), contentDescription = null) },
            label = { Name(destination) },
        )
    }
}

@Composable
private fun Rail(state: UiState, send: (Event) -> Unit) = NavigationRail {
    for (destination in Destination.values()) {
        NavigationRailItem(
            selected = destination.isAt(state),
            onClick = { send(Event.Show(destination.screen)) },
            icon = { Icon(painterResource(destination.icon), contentDescription = null) },
            label = { Name(destination) },
        )
    }
}

// Four names in letters of twice the size would not fit beside each other.
@Composable
private fun Name(destination: Destination) {
    val density = LocalDensity.current
    val limited = Density(density.density, density.fontScale.coerceAtMost(1.3f))
    CompositionLocalProvider(LocalDensity provides limited) {
        Text(LocalWording.current.text(destination.title), maxLines = 1)
    }
}

private enum class Destination(val screen: Screen, val title: Int, val icon: Int) {
    CLASSIFY(Screen.CLASSIFY, R.string.screen_classify, R.drawable.ic_classify),
    COMPARE(Screen.COMPARE, R.string.screen_compare, R.drawable.ic_compare),
    VERIFY(Screen.VERIFY, R.string.screen_verify, R.drawable.ic_verify),
    LABELS(Screen.LABELS, R.string.screen_labels, R.drawable.ic_labels);

    fun isAt(state: UiState): Boolean {
        val settings = state.settings
        val shown = if (settings.screen == Screen.MODELS) settings.pickingFrom else settings.screen
        return shown == screen
    }
}
