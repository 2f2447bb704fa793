package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.net.Uri
import android.os.Looper
import dev.kerasvit.demo.source.AllBundles
import dev.kerasvit.demo.source.AssetBundles
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Permission
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import java.io.File
import java.io.FileNotFoundException
import java.util.concurrent.CountDownLatch
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf

/** Each look of the app in each form of the phone is as it must be, and has its place in a sheet. */
@RunWith(RobolectricTestRunner::class)
class FormsTest {
    @get:Rule
    val phone = Phone()
    private val layout = Layout(phone)
    private lateinit var healthy: List<Model>

    @Test
    fun `in the light`() = onEveryLook("light", "+notnight")

    @Test
    fun `in the dark`() = onEveryLook("dark", "+night")

    @Test
    fun `in Chinese`() = onEveryLook("chinese", "+zh-rCN")

    @Test
    fun `from right to left`() = onEveryLook("rtl", "+ar-ldrtl")

    @Test
    fun `in letters of twice the size`() = onEveryLook("large_font", "+port", fontScale = 2f)

    private fun onEveryLook(form: String, qualifiers: String, fontScale: Float = 1f) {
        RuntimeEnvironment.setQualifiers(qualifiers)
        RuntimeEnvironment.setFontScale(fontScale)
        startWithoutGpu()
        healthy = checkNotNull(phone.state.models)
        val sheet = mutableListOf<Pair<String, Bitmap>>()
        for (look in looks) show(look) {
            val place = "$form, ${look.name}"
            layout.checkTexts(place)
            layout.checkPlaces(place)
            layout.checkTargets(place)
            layout.checkDigits(place)
            if (look.isPictured) sheet += look.name to small(phone.picture())
        }
        phone.write("all_$form", drawn(sheet))
    }

    private fun show(look: Look, whileShown: () -> Unit) {
        for (event in reset()) phone.app.store(null).send(event)
        phone.settle()
        val mayGoOn = CountDownLatch(1)
        if (look.isBusy) phone.app.worker.post { mayGoOn.await() }
        try {
            for (event in look.events(phone.state)) phone.app.store(null).send(event)
            if (!look.isBusy) phone.settle()
            shadowOf(Looper.getMainLooper()).idle()
            phone.draw()
            whileShown()
        } finally {
            mayGoOn.countDown()
            phone.settle()
        }
    }

    private fun reset(): List<Event> = healthy.map { Event.ModelRead(it) } + listOf(
        Event.StopVerifying,
        Event.PickModel(rival = true),
        Event.ChooseModel("cifar10-int8"),
        Event.PickModel(rival = false),
        Event.ChooseModel("cifar10-float16"),
        Event.ShowSettings(false),
        Event.NameClass(false),
        Event.CloseDialog,
        Event.Show(Screen.CLASSIFY),
        Event.ChooseSource(Source.Golden),
        Event.ChooseThreshold(50),
        Event.Search(""),
    )

    @Test
    fun `pictures of the first screen`() {
        startWithoutGpu()
        phone.screenshot("classify_light")
        phone.pullSheet()
        phone.screenshot("classify_details")
        phone.pullSheet()
        picture("classify_dark", "+night")
        picture("classify_chinese", "+zh-rCN")
        picture("classify_rtl", "+ar-ldrtl")
        picture("classify_large_font", "+notnight", fontScale = 2f)
        picture("classify_landscape", "+w891dp-h411dp-land")
        picture("classify_tablet", "+w800dp-h1200dp-night")
        picture("settings_light", "+notnight") { phone.send(Event.ShowSettings(true)) }
    }

    @Test
    fun `pictures of the other screens`() {
        startWithoutGpu()
        phone.send(Event.Show(Screen.COMPARE))
        picture("compare_light", "+notnight")
        picture("compare_dark", "+night")
        picture("compare_tablet", "+w1000dp-h700dp-land")
        picture("compare_large_font", "+notnight", fontScale = 1.5f)
        phone.send(Event.Show(Screen.VERIFY))
        phone.send(Event.Verify)
        picture("verify_light", "+notnight")
        picture("verify_chinese", "+zh-rCN")
        picture("verify_dark", "+night")
        picture("verify_rtl", "+ar-ldrtl")
        picture("verify_tablet", "+w1000dp-h700dp-land")
        phone.send(Event.Show(Screen.LABELS))
        picture("labels_light", "+notnight")
        picture("labels_rtl", "+ar-ldrtl")
        picture("labels_dark", "+night")
        phone.send(Event.PickModel(rival = false))
        picture("models_light", "+notnight")
        picture("models_chinese_dark", "+zh-rCN-night")
        phone.send(Event.Show(Screen.CLASSIFY))
        phone.send(Event.CamerasFound(listOf(Facing.BACK)))
        phone.send(Event.ChooseSource(Source.Camera(Facing.BACK)))
        phone.send(Event.PermissionChanged(Permission.REFUSED))
        picture("permission_light", "+notnight")
        picture("permission_chinese_dark", "+zh-rCN-night")
        picture("permission_landscape", "+w891dp-h411dp-land")
    }

    private fun picture(
        name: String,
        qualifiers: String,
        fontScale: Float = 1f,
        first: () -> Unit = {},
    ) {
        RuntimeEnvironment.setQualifiers("en-rUS-ldltr-w411dp-h891dp-port-notnight-hdpi")
        RuntimeEnvironment.setFontScale(fontScale)
        RuntimeEnvironment.setQualifiers(qualifiers)
        phone.recreate()
        first()
        phone.screenshot(name)
    }

    private fun startWithoutGpu() {
        for (photo in PHOTOS) {
            shadowOf(phone.app.contentResolver)
                .registerInputStreamSupplier(Uri.parse(photo)) { throw FileNotFoundException() }
        }
        val reason = "Following operations are not supported by GPU delegate: BATCH_MATMUL"
        phone.app.testEngines = RefusingEngines(Backend.GPU, EngineFailure.REFUSED, reason)
        val features = FolderBundles(File("../testing/features"))
        val maps = FolderBundles(File("../testing/feature_maps"))
        phone.app.testBundles =
            AllBundles(AssetBundles(phone.app.assets), AllBundles(features, maps))
        phone.start()
    }
}

// A half first: the platform's scaling leaves out pixels of what it makes smaller than that.
private fun small(picture: Bitmap): Bitmap {
    val half = Bitmap.createScaledBitmap(picture, picture.width / 2, picture.height / 2, true)
    return Bitmap.createScaledBitmap(half, half.width * 3 / 4, half.height * 3 / 4, true)
}

private fun drawn(looks: List<Pair<String, Bitmap>>): Bitmap {
    val width = looks[0].second.width + GAP
    val height = looks[0].second.height + GAP + NAME
    val rows = (looks.size + COLUMNS - 1) / COLUMNS
    val sheet =
        Bitmap.createBitmap(COLUMNS * width + GAP, rows * height + GAP, Bitmap.Config.ARGB_8888)
    val canvas = Canvas(sheet)
    canvas.drawColor(Color.GRAY)
    val paint = Paint(Paint.ANTI_ALIAS_FLAG).apply {
        color = Color.WHITE
        textSize = NAME * 0.7f
    }
    for ((i, look) in looks.withIndex()) {
        val left = (GAP + i % COLUMNS * width).toFloat()
        val top = (GAP + i / COLUMNS * height).toFloat()
        canvas.drawText(look.first, left, top + NAME * 0.7f, paint)
        canvas.drawBitmap(look.second, left, top + NAME, null)
    }
    return sheet
}

private const val COLUMNS = 8
private const val GAP = 12
private const val NAME = 22
