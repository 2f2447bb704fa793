package dev.kerasvit.demo.screen

import androidx.compose.foundation.ScrollState
import androidx.compose.runtime.Composable
import androidx.compose.runtime.LaunchedEffect
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableIntStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.saveable.rememberSaveable
import androidx.compose.runtime.setValue
import androidx.compose.runtime.snapshotFlow
import kotlinx.coroutines.launch

/**
 * Goes back to where it was scrolled to, also where its content comes later: after the end of the
 * process, the first layout has no result, and a `rememberScrollState` would stay there.
 */
@Composable
internal fun rememberKeptScroll(): ScrollState {
    val scroll = remember { ScrollState(0) }
    var wanted by rememberSaveable { mutableIntStateOf(0) }
    LaunchedEffect(scroll) {
        launch {
            snapshotFlow { scroll.maxValue }.collect { if (it >= wanted) scroll.scrollTo(wanted) }
        }
        // Who scrolls wants to be there; content that becomes shorter moves it, too.
        snapshotFlow { scroll.value.takeIf { scroll.isScrollInProgress } }
            .collect { if (it != null) wanted = it }
    }
    return scroll
}
