package dev.kerasvit.demo.view

import android.graphics.SurfaceTexture
import android.graphics.drawable.BitmapDrawable
import android.view.TextureView
import android.view.View
import android.widget.ImageView
import dev.kerasvit.core.CropBox
import dev.kerasvit.demo.R
import dev.kerasvit.demo.source.BitmapPreview
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Preview
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.UiState

/** What is classified: a picture, or what the camera sees. */
internal class PicturePart(root: View, private val host: Host) {
    private val picture = root.findViewById<ImageView>(R.id.picture)
    private val camera = root.findViewById<TextureView>(R.id.camera)
    private val crop = root.findViewById<CropView>(R.id.crop)
    private val none = root.findViewById<View>(R.id.picture_none)
    private val flip = root.findViewById<View>(R.id.camera_flip)
    private var shown: Preview? = null

    init {
        camera.isOpaque = false // Beside the camera's picture, the frame's colour is to be seen.
        camera.surfaceTextureListener = object : TextureView.SurfaceTextureListener {
            override fun onSurfaceTextureAvailable(surface: SurfaceTexture, w: Int, h: Int) =
                host.onCameraSurface(camera, surface)

            // Another size may mean another rotation.
            override fun onSurfaceTextureSizeChanged(surface: SurfaceTexture, w: Int, h: Int) =
                host.onCameraSurface(camera, surface)

            override fun onSurfaceTextureDestroyed(surface: SurfaceTexture): Boolean {
                host.onCameraSurfaceGone(surface)
                return true
            }

            override fun onSurfaceTextureUpdated(surface: SurfaceTexture) = Unit
        }
    }

    fun render(state: UiState) {
        val source = state.settings.source
        val isCamera = state.wantedCamera != null
        camera.isVisible = isCamera
        picture.isVisible = !isCamera && state.preview != null
        none.isVisible = !isCamera && state.preview == null
        flip.isVisible = isCamera && state.cameras?.size == 2
        if (source is Source.Camera) flip.setOnClickListener { host.flip(source) }
        if (state.preview !== shown) show(state.preview)
        crop.box = cropBox(state, isCamera)
    }

    private fun cropBox(state: UiState, isCamera: Boolean): CropBox? {
        val input = state.model?.bundle?.description?.input ?: return null
        val bitmap = (state.preview as? BitmapPreview)?.bitmap
        return when {
            isCamera -> state.frame?.let { CropBox(it.width, it.height, input) }
            bitmap != null -> CropBox(bitmap.width, bitmap.height, input)
            else -> null
        }
    }

    private fun show(preview: Preview?) {
        shown = preview
        val bitmap = (preview as? BitmapPreview)?.bitmap
        picture.setImageDrawable(bitmap?.let { BitmapDrawable(picture.resources, it).sharp() })
    }
}

/** Shows the pixels of a tiny picture as they are: blurred, they would not be the model's. */
internal fun BitmapDrawable.sharp(): BitmapDrawable {
    isFilterBitmap = maxOf(bitmap.width, bitmap.height) > TINY
    return this
}

private fun Host.flip(source: Source.Camera) {
    val other = if (source.facing == Facing.BACK) Facing.FRONT else Facing.BACK
    send(Event.ChooseSource(Source.Camera(other)))
}

private const val TINY = 64
