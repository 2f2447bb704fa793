package dev.kerasvit.demo.screen

import androidx.compose.foundation.background
import androidx.compose.foundation.layout.Arrangement
import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.BoxScope
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.WindowInsetsSides
import androidx.compose.foundation.layout.fillMaxWidth
import androidx.compose.foundation.layout.only
import androidx.compose.foundation.layout.padding
import androidx.compose.foundation.layout.safeDrawing
import androidx.compose.foundation.layout.statusBars
import androidx.compose.foundation.layout.windowInsetsPadding
import androidx.compose.foundation.layout.windowInsetsTopHeight
import androidx.compose.foundation.shape.CircleShape
import androidx.compose.material3.FilledIconButton
import androidx.compose.material3.Icon
import androidx.compose.material3.IconButtonDefaults
import androidx.compose.material3.MaterialTheme
import androidx.compose.material3.Surface
import androidx.compose.material3.Text
import androidx.compose.runtime.Composable
import androidx.compose.ui.Alignment
import androidx.compose.ui.Modifier
import androidx.compose.ui.res.painterResource
import androidx.compose.ui.unit.Dp
import androidx.compose.ui.unit.dp
import dev.kerasvit.demo.R
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.UiState

/** A model to choose another one, and the way to the settings, at the top of a picture. */
@Composable
internal fun BoxScope.ModelAndSettings(model: Model?, send: (Event) -> Unit) {
    Box(
        Modifier.align(Alignment.TopCenter).fillMaxWidth()
            .background(MaterialTheme.colorScheme.surface.copy(alpha = 0.6f))
            .windowInsetsTopHeight(WindowInsets.statusBars),
    )
    Row(
        Modifier.align(Alignment.TopCenter).fillMaxWidth().safeTop().padding(8.dp),
        Arrangement.SpaceBetween,
        Alignment.Top,
    ) {
        Box(Modifier.weight(1f, fill = false)) {
            if (model != null) {
                ModelChip(model, alpha = OVER) { send(Event.PickModel(rival = false)) }
            }
        }
        Round(R.drawable.ic_settings, R.string.settings_title) { send(Event.ShowSettings(true)) }
    }
}

/** How fast it goes and, of a camera, the way to the other one; [above] the picture's edge. */
@Composable
internal fun BoxScope.SpeedAndFlip(state: UiState, host: Host, speed: String?, above: Dp = 0.dp) {
    Row(
        Modifier.align(Alignment.BottomCenter).fillMaxWidth()
            .windowInsetsPadding(
                WindowInsets.safeDrawing.only(WindowInsetsSides.Bottom + WindowInsetsSides.Start),
            )
            .padding(bottom = above).padding(8.dp),
        Arrangement.SpaceBetween,
        Alignment.Bottom,
    ) {
        Box(Modifier.weight(1f, fill = false)) { if (speed != null) Speed(speed) }
        val source = state.settings.source
        if (state.wantedCamera != null && state.cameras?.size == 2 && source is Source.Camera) {
            Round(R.drawable.ic_flip, R.string.camera_flip) { host.chooseCamera(source.other) }
        }
    }
}

private val Source.Camera.other: Facing
    get() = if (facing == Facing.BACK) Facing.FRONT else Facing.BACK

@Composable
private fun Speed(speed: String) {
    Surface(shape = CircleShape, color = MaterialTheme.colorScheme.surface.copy(alpha = OVER)) {
        Text(
            speed,
            Modifier.padding(horizontal = 12.dp, vertical = 6.dp),
            style = MaterialTheme.typography.labelLarge.tabular(),
        )
    }
}

@Composable
private fun Round(icon: Int, name: Int, onClick: () -> Unit) = FilledIconButton(
    onClick,
    colors = IconButtonDefaults.filledIconButtonColors(
        MaterialTheme.colorScheme.surface.copy(alpha = OVER),
        MaterialTheme.colorScheme.onSurface,
    ),
) {
    Icon(painterResource(icon), LocalWording.current.text(name))
}

@Composable
private fun Modifier.safeTop(): Modifier = windowInsetsPadding(
    WindowInsets.safeDrawing.only(WindowInsetsSides.Top + WindowInsetsSides.Start),
)

/** How much of a picture things over it leave. */
private const val OVER = 0.92f
