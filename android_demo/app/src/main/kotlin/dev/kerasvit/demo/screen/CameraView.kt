package dev.kerasvit.demo.screen

import android.graphics.SurfaceTexture
import android.view.TextureView
import androidx.compose.runtime.Composable
import androidx.compose.ui.Modifier
import androidx.compose.ui.viewinterop.AndroidView

/** A surface for the camera. [onSurface] is called again for another size: it may be turned. */
@Composable
internal fun CameraView(
    modifier: Modifier,
    onSurface: (TextureView, SurfaceTexture) -> Unit,
    onGone: (SurfaceTexture) -> Unit,
) = AndroidView(
    { context ->
        val view = TextureView(context)
        view.surfaceTextureListener = object : TextureView.SurfaceTextureListener {
            override fun onSurfaceTextureAvailable(surface: SurfaceTexture, w: Int, h: Int) =
                onSurface(view, surface)

            override fun onSurfaceTextureSizeChanged(surface: SurfaceTexture, w: Int, h: Int) =
                onSurface(view, surface)

            override fun onSurfaceTextureDestroyed(surface: SurfaceTexture): Boolean {
                onGone(surface)
                return true
            }

            override fun onSurfaceTextureUpdated(surface: SurfaceTexture) = Unit
        }
        view
    },
    modifier,
)
