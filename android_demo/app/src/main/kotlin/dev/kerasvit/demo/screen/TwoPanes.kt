package dev.kerasvit.demo.screen

import androidx.compose.foundation.layout.Box
import androidx.compose.foundation.layout.Column
import androidx.compose.foundation.layout.ColumnScope
import androidx.compose.foundation.layout.Row
import androidx.compose.foundation.layout.WindowInsets
import androidx.compose.foundation.layout.WindowInsetsSides
import androidx.compose.foundation.layout.fillMaxHeight
import androidx.compose.foundation.layout.fillMaxSize
import androidx.compose.foundation.layout.only
import androidx.compose.foundation.layout.safeDrawing
import androidx.compose.foundation.layout.windowInsetsPadding
import androidx.compose.foundation.verticalScroll
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier

/** A picture, [results] that scroll beside it, and what stays [below] them. */
@Composable
internal fun TwoPanes(
    picture: @Composable () -> Unit,
    results: @Composable ColumnScope.() -> Unit,
    below: @Composable () -> Unit,
) = Row(Modifier.fillMaxSize()) {
    Box(Modifier.weight(1f)) { picture() }
    val sides = WindowInsetsSides.Vertical + WindowInsetsSides.End
    Column(
        Modifier.weight(1f).fillMaxHeight()
            .windowInsetsPadding(WindowInsets.safeDrawing.only(sides)),
    ) {
        Column(Modifier.weight(1f).verticalScroll(rememberKeptScroll()), content = results)
        below()
    }
}
