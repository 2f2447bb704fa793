package dev.kerasvit.demo

import android.Manifest
import android.content.ActivityNotFoundException
import android.content.Intent
import android.content.pm.PackageManager
import android.net.Uri
import android.os.Bundle
import android.provider.Settings as SystemSettings
import android.widget.Toast
import androidx.activity.ComponentActivity
import androidx.activity.compose.setContent
import androidx.activity.enableEdgeToEdge
import androidx.activity.result.PickVisualMediaRequest
import androidx.activity.result.contract.ActivityResultContracts.OpenDocument
import androidx.activity.result.contract.ActivityResultContracts.PickMultipleVisualMedia
import androidx.activity.result.contract.ActivityResultContracts.PickVisualMedia
import androidx.activity.result.contract.ActivityResultContracts.RequestMultiplePermissions
import androidx.compose.runtime.Composable
import androidx.compose.runtime.getValue
import androidx.compose.runtime.mutableStateOf
import androidx.compose.runtime.setValue
import androidx.compose.ui.Modifier
import dev.kerasvit.demo.screen.App
import dev.kerasvit.demo.screen.CameraView
import dev.kerasvit.demo.screen.Host
import dev.kerasvit.demo.screen.Theme
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Permission
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.Store
import dev.kerasvit.demo.state.UiState

/** Connects the [Store] with the screen and with the system; it decides nothing itself. */
class MainActivity : ComponentActivity(), Host {
    private lateinit var store: Store
    internal lateinit var camera: CameraHolder
    private var shown by mutableStateOf(UiState())
    private val observer: (UiState) -> Unit = ::render
    private var wasRefused = false // The camera, as far as this activity knows.
    private val permission = registerForActivityResult(RequestMultiplePermissions(), ::onPermission)
    private val photo = registerForActivityResult(PickVisualMedia(), ::onPhoto)
    private val pictures = registerForActivityResult(PickMultipleVisualMedia(), ::onPictures)
    private var classOfPictures: String? = null // Whose pictures are being chosen.
    private val zip = registerForActivityResult(OpenDocument(), ::onZip)

    override fun onCreate(savedInstanceState: Bundle?) {
        enableEdgeToEdge()
        super.onCreate(savedInstanceState)
        val application = application as DemoApplication
        store = application.store(savedInstanceState?.let(::savedSettings))
        classOfPictures = savedInstanceState?.getString(CLASS)
        camera = CameraHolder(this, store, application.cameras)
        if (savedInstanceState == null) take(intent)
        store.observe(observer)
        setContent { Theme(application.colours) { App(shown, store::send, this) } }
    }

    override fun onNewIntent(intent: Intent) {
        super.onNewIntent(intent)
        take(intent)
    }

    override fun onStart() {
        super.onStart()
        if (store.state.isAsleep) store.send(Event.Wake)
    }

    override fun onResume() {
        super.onResume()
        // It may have been allowed, or taken away, in the system's settings.
        if (store.state.settings.source is Source.Camera) checkCamera()
        camera.onResume()
        store.send(Event.LookForPushed)
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
        outState.putString(CLASS, classOfPictures)
    }

    override fun chooseCamera(facing: Facing) {
        camera.findCameras()
        store.send(Event.ChooseSource(Source.Camera(facing)))
        if (store.state.cameras?.isEmpty() == true) return
        if (isCameraAllowed()) {
            store.send(Event.PermissionChanged(Permission.GRANTED))
        } else {
            wasRefused = wasRefused || isExplanationWanted()
            permission.launch(arrayOf(Manifest.permission.CAMERA))
        }
    }

    private fun onPermission(answers: Map<String, Boolean>) {
        // Not to be asked again is what was refused before, and wants no explanation. A first
        // dialog that was dismissed wants none either.
        val isAskable = !wasRefused || isExplanationWanted()
        // Without an answer, the dialog was interrupted.
        if (answers.isNotEmpty()) wasRefused = true
        store.send(Event.PermissionChanged(permission(isAskable)))
    }

    // Needs no permission.
    override fun choosePhoto() = try {
        photo.launch(PickVisualMediaRequest(PickVisualMedia.ImageOnly))
    } catch (_: ActivityNotFoundException) {
        say(R.string.picture_chooser_missing)
    }

    override fun choosePictures(name: String) = try {
        classOfPictures = name
        pictures.launch(PickVisualMediaRequest(PickVisualMedia.ImageOnly))
    } catch (_: ActivityNotFoundException) {
        say(R.string.picture_chooser_missing)
    }

    private fun onPictures(uris: List<Uri>) {
        val name = classOfPictures ?: return
        classOfPictures = null
        if (uris.isNotEmpty()) store.send(Event.AddPictures(name, uris.map { it.toString() }))
    }

    override fun chooseZip() = try {
        zip.launch(ZIP_TYPES)
    } catch (_: ActivityNotFoundException) {
        say(R.string.zip_chooser_missing)
    }

    private fun onZip(uri: Uri?) {
        if (uri != null) store.send(Event.AddZip(uri.toString()))
    }

    private fun onPhoto(uri: Uri?) {
        if (uri == null) return
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

    @Composable
    override fun Camera(modifier: Modifier) =
        CameraView(modifier, camera::onSurface, camera::onSurfaceGone)

    /** A picture or a zip that another app gives to this one, once: not again with recent apps. */
    private fun take(intent: Intent) {
        if (intent.flags and Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY != 0) return
        sharedPicture(intent)?.let {
            store.send(Event.ShowShared(Source.Picture(it.toString(), isLasting = false)))
        }
        sharedZip(intent)?.let { store.send(Event.OfferZip(it.toString())) }
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
        shown = state
        camera.update(state)
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
}

private const val CLASS = "class"
