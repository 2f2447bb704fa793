package dev.kerasvit.demo

import android.Manifest
import android.annotation.TargetApi
import android.app.Activity
import android.content.ActivityNotFoundException
import android.content.Intent
import android.content.pm.PackageManager
import android.graphics.SurfaceTexture
import android.net.Uri
import android.os.Build
import android.os.Bundle
import android.provider.MediaStore
import android.provider.Settings as SystemSettings
import android.view.TextureView
import android.view.View
import android.view.Window
import android.widget.Toast
import android.window.OnBackInvokedCallback
import android.window.OnBackInvokedDispatcher
import androidx.activity.ComponentActivity
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Permission
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.Store
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.backFrom
import dev.kerasvit.demo.view.Host
import dev.kerasvit.demo.view.RootView

/** Connects the [Store] with the screen and with the system; it decides nothing itself. */
class MainActivity : ComponentActivity(), Host {
    private lateinit var store: Store
    private lateinit var root: RootView
    private lateinit var camera: CameraHolder
    private val back = BackButton(this) { store.send(Event.Back) }
    private val observer: (UiState) -> Unit = ::render
    private var wasRefused = false // The camera, as far as this activity knows.

    override fun onCreate(savedInstanceState: Bundle?) {
        super.onCreate(savedInstanceState)
        val application = application as DemoApplication
        store = application.store(savedInstanceState?.let(::savedSettings))
        camera = CameraHolder(this, store, application.cameras)
        root = RootView(this, this)
        setContentView(root.view)
        drawBehindBars()
        store.observe(observer)
    }

    override fun onResume() {
        super.onResume()
        // It may have been allowed, or taken away, in the system's settings.
        if (store.state.settings.source is Source.Camera) checkCamera()
        camera.onResume()
    }

    override fun onPause() {
        camera.onPause()
        super.onPause()
    }

    override fun onDestroy() {
        store.remove(observer)
        super.onDestroy()
    }

    override fun onSaveInstanceState(outState: Bundle) {
        super.onSaveInstanceState(outState)
        store.state.settings.save(outState)
    }

    override fun send(event: Event) = store.send(event)

    override fun chooseCamera(facing: Facing) {
        camera.findCameras()
        store.send(Event.ChooseSource(Source.Camera(facing)))
        if (store.state.cameras?.isEmpty() == true) return
        if (isCameraAllowed()) {
            store.send(Event.PermissionChanged(Permission.GRANTED))
        } else {
            wasRefused = wasRefused || isExplanationWanted()
            requestPermissions(arrayOf(Manifest.permission.CAMERA), CAMERA_REQUEST)
        }
    }

    override fun onRequestPermissionsResult(request: Int, names: Array<String>, results: IntArray) {
        if (request != CAMERA_REQUEST) return
        // Not to be asked again is what was refused before, and wants no explanation. A first
        // dialog that was dismissed wants none either; an answer without results is a dialog that
        // was interrupted.
        val isAskable = results.isEmpty() || !wasRefused || isExplanationWanted()
        if (results.isNotEmpty()) wasRefused = true
        store.send(Event.PermissionChanged(permission(isAskable)))
    }

    override fun choosePhoto() {
        try {
            startActivityForResult(photoChooser(), PHOTO_REQUEST)
        } catch (_: ActivityNotFoundException) {
            say(R.string.picture_chooser_missing)
        }
        // The chip must not show a choice that was not made.
        root.render(store.state)
    }

    override fun onActivityResult(request: Int, result: Int, data: Intent?) {
        val uri = data?.data ?: return
        if (request != PHOTO_REQUEST || result != RESULT_OK) return
        keepReadable(uri)
        store.send(Event.ChooseSource(Source.Picture(uri.toString())))
    }

    override fun openAppSettings() {
        val uri = Uri.fromParts("package", packageName, null)
        try {
            startActivity(Intent(SystemSettings.ACTION_APPLICATION_DETAILS_SETTINGS, uri))
        } catch (_: ActivityNotFoundException) {
            say(R.string.settings_missing)
        }
    }

    override fun share(title: String, text: String) {
        val send = Intent(Intent.ACTION_SEND)
            .setType("text/plain")
            .putExtra(Intent.EXTRA_SUBJECT, title)
            .putExtra(Intent.EXTRA_TEXT, text)
        startActivity(Intent.createChooser(send, title))
    }

    override fun onCameraSurface(view: TextureView, surface: SurfaceTexture) =
        camera.onSurface(view, surface)

    override fun onCameraSurfaceGone(surface: SurfaceTexture) = camera.onSurfaceGone(surface)

    // Android 13 and newer do not call this if the app has a callback.
    @Suppress("OVERRIDE_DEPRECATION", "DEPRECATION")
    override fun onBackPressed() {
        if (back.isTaken) store.send(Event.Back) else super.onBackPressed()
    }

    private fun keepReadable(uri: Uri) {
        val read = Intent.FLAG_GRANT_READ_URI_PERMISSION
        try {
            contentResolver.takePersistableUriPermission(uri, read)
        } catch (_: SecurityException) {
            // It can then be read as long as this process lives; afterwards there is a message.
        }
        // Android keeps only so many for an app, and this one shows no picture but the newest.
        for (older in contentResolver.persistedUriPermissions.map { it.uri } - uri) {
            contentResolver.releasePersistableUriPermission(older, read)
        }
    }

    private fun say(text: Int) = Toast.makeText(this, text, Toast.LENGTH_LONG).show()

    private fun render(state: UiState) {
        root.render(state)
        camera.update(state)
        back.isTaken = backFrom(state.settings) != null
    }

    private fun checkCamera() {
        if (store.state.cameras == null) camera.findCameras()
        val known = store.state.permission
        val permission = when {
            isCameraAllowed() -> Permission.GRANTED
            known == Permission.REFUSED_FOR_EVER -> known
            else -> Permission.REFUSED
        }
        if (permission != known) store.send(Event.PermissionChanged(permission))
    }

    private fun permission(isAskable: Boolean): Permission = when {
        isCameraAllowed() -> Permission.GRANTED
        isAskable -> Permission.REFUSED
        else -> Permission.REFUSED_FOR_EVER
    }

    private fun isExplanationWanted(): Boolean =
        shouldShowRequestPermissionRationale(Manifest.permission.CAMERA)

    private fun isCameraAllowed(): Boolean =
        checkSelfPermission(Manifest.permission.CAMERA) == PackageManager.PERMISSION_GRANTED

    private fun drawBehindBars() =
        if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.R) window.fill() else window.oldFill()
}

@TargetApi(Build.VERSION_CODES.R)
private fun Window.fill() = setDecorFitsSystemWindows(false)

@Suppress("DEPRECATION")
private fun Window.oldFill() {
    decorView.systemUiVisibility = decorView.systemUiVisibility or
        View.SYSTEM_UI_FLAG_LAYOUT_STABLE or
        View.SYSTEM_UI_FLAG_LAYOUT_FULLSCREEN or
        View.SYSTEM_UI_FLAG_LAYOUT_HIDE_NAVIGATION
}

// Neither needs a permission.
private fun photoChooser(): Intent =
    if (Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU) {
        Intent(MediaStore.ACTION_PICK_IMAGES).setType("image/*")
    } else {
        Intent(Intent.ACTION_OPEN_DOCUMENT)
            .addCategory(Intent.CATEGORY_OPENABLE)
            .setType("image/*")
    }

/** Takes the "back" gesture while [isTaken]; otherwise the system shows where it leads. */
private class BackButton(private val activity: Activity, private val onBack: () -> Unit) {
    private var callback: Any? = null // `OnBackInvokedCallback` exists since Android 13.

    var isTaken = false
        set(value) {
            if (value != field && Build.VERSION.SDK_INT >= Build.VERSION_CODES.TIRAMISU) {
                if (value) take() else release()
            }
            field = value
        }

    @TargetApi(Build.VERSION_CODES.TIRAMISU)
    private fun take() {
        val taken = OnBackInvokedCallback { onBack() }
        callback = taken
        activity.onBackInvokedDispatcher
            .registerOnBackInvokedCallback(OnBackInvokedDispatcher.PRIORITY_DEFAULT, taken)
    }

    @TargetApi(Build.VERSION_CODES.TIRAMISU)
    private fun release() {
        val taken = callback as? OnBackInvokedCallback ?: return
        activity.onBackInvokedDispatcher.unregisterOnBackInvokedCallback(taken)
    }
}

private const val CAMERA_REQUEST = 1
private const val PHOTO_REQUEST = 2
