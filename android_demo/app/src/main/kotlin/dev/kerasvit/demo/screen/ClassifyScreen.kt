package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.BoxWithConstraints
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.PaddingValues
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.asPaddingValues
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.heightIn
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.statusBars
import androidx.compose.foundation.verticalScroll
import androidx.compose.material3.BottomSheetDefaults
import androidx.compose.material3.BottomSheetScaffold
import androidx.compose.material3.ExperimentalMaterial3Api
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.remember
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import androidx.compose.ui.draw.clipToBounds
import androidx.compose.ui.layout.onSizeChanged
import androidx.compose.ui.platform.LocalDensity
import androidx.compose.ui.unit.coerceAtMost
import androidx.compose.ui.unit.dp
import dev.kerasvit.core.Mask
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.UiState

/** One model on one picture, or on what the camera sees. */
@Composable
internal fun ClassifyScreen(state: UiState, send: (Event) -> Unit, host: Host) =
    if (isWide()) Beside(state, send, host) else Sheet(state, send, host)

/** The result lies over the lower part of the picture; pulled up, it shows details. */
@OptIn(ExperimentalMaterial3Api::class)
@Composable
private fun Sheet(state: UiState, send: (Event) -> Unit, host: Host) = Column {
    BoxWithConstraints(Modifier.weight(1f).clipToBounds()) {
        val density = LocalDensity.current
        var height by remember { mutableStateOf(200.dp) }
        val hasDetails = state.shownResult.answer != null
        val top = if (hasDetails) HANDLE else MARGIN
        val bar = WindowInsets.statusBars.asPaddingValues().calculateTopPadding()
        val isLive = hasDetails && state.wantedCamera != null
        val frame = (state.frame ?: UNKNOWN_FRAME).takeIf { isLive }
        // The camera's picture has the whole width, as long as the best class is seen below it, or
        // all colours of patches.
        val below = frame?.let { maxHeight - bar - maxWidth * it.height / it.width }
        val least = if (state.shownResult.answer?.patches == null) BEST else height
        val limit = below?.coerceAtLeast(top + least) ?: maxHeight
        val peek = (top + height).coerceAtMost(maxHeight * 0.7f).coerceAtMost(limit)
        val most = maxHeight * 0.8f - top // Of the picture, something is still seen.
        BottomSheetScaffold(
            sheetPeekHeight = peek,
            sheetDragHandle = handle.takeIf { hasDetails },
            sheetContent = {
                Column(
                    Modifier.fillMaxWidth().heightIn(max = most)
                        .verticalScroll(rememberKeptScroll()),
                ) {
                    Found(
                        state,
                        send,
                        host,
                        Modifier.padding(top = if (hasDetails) 0.dp else MARGIN)
                            .onSizeChanged { height = with(density) { it.height.toDp() } },
                    )
                    RunDetails(
                        state.shownResult,
                        state.model?.bundle,
                        Modifier.padding(horizontal = MARGIN).padding(bottom = MARGIN),
                    )
                }
            },
        ) {
            val covered = PaddingValues(top = bar, bottom = peek)
            PicturePane(state, host, Modifier.fillMaxSize(), covered, maskOf(state)) {
                ModelAndSettings(state.model, send)
                SpeedAndFlip(state, host, speedOf(state), above = peek)
            }
        }
    }
    SourceRow(state, send, host)
}

/** The result is beside the picture. */
@Composable
private fun Beside(state: UiState, send: (Event) -> Unit, host: Host) = TwoPanes(
    picture = {
        PicturePane(state, host, Modifier.fillMaxSize(), mask = maskOf(state)) {
            ModelAndSettings(state.model, send)
            SpeedAndFlip(state, host, speedOf(state))
        }
    },
    results = {
        Box(Modifier.padding(top = MARGIN)) { Found(state, send, host) }
        RunDetails(state.shownResult, state.model?.bundle, Modifier.padding(horizontal = MARGIN))
    },
    below = { SourceRow(state, send, host) },
)

@Composable
private fun speedOf(state: UiState): String? = LocalWording.current.speed(state.shownResult.answer)

/** Not an old answer's: that may be another picture's. */
private fun maskOf(state: UiState): Mask? = (state.shownResult as? Result.Answer)?.mask

/** The class, the colours or the mask's classes, or why there are none. */
@Composable
private fun Found(
    state: UiState,
    send: (Event) -> Unit,
    host: Host,
    modifier: Modifier = Modifier,
) = Column(modifier.fillMaxWidth().padding(horizontal = MARGIN).padding(bottom = MARGIN)) {
    val result = state.shownResult
    val problem = state.sourceProblem ?: (result as? Result.Failed)?.problem
    if (problem != null) ProblemCard(problem) { host.act(it, send) }
    if (result.answer?.mask != null) Opacity(state.settings.opacity, send)
    AnswerPart(result, state.settings.threshold, state.announcement)
}

@OptIn(ExperimentalMaterial3Api::class)
private val handle: @Composable () -> Unit = { BottomSheetDefaults.DragHandle() }

/** The height of the best class and its bar. */
private val BEST = 64.dp

/** The height of the sheet's handle, all of which can be touched. */
private val HANDLE = 48.dp
