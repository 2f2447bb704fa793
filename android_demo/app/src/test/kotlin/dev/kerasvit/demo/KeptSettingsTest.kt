package dev.kerasvit.demo

import android.content.Intent
import android.net.Uri
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.Source
import dev.kerasvit.engine.Backend
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNull
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf
import org.xmlpull.v1.XmlPullParser

/** What the app remembers after a swipe from the recents, when no activity is restored. */
@RunWith(RobolectricTestRunner::class)
class KeptSettingsTest {
    @get:Rule
    val phone = Phone()
    private val file = File(phone.app.filesDir, "kept/settings")

    @Test
    fun `choices are there at the next start, screen and search are not`() {
        phone.start()
        val sample = Source.Sample("digit-7.png")
        for (event in listOf(
            Event.ChooseModel("digits-int8"),
            Event.ChooseBackend(Backend.CPU_PLAIN),
            Event.ChooseThreads(3),
            Event.ChooseThreshold(65),
            Event.ChooseOpacity(35),
            Event.ChooseSource(sample),
            Event.Show(Screen.LABELS),
            Event.Search("7"),
        )) phone.send(event)
        phone.leave()
        phone.app.endProcess()
        phone.start()
        val expected = Settings(
            model = "digits-int8",
            rival = "digits-int8",
            backend = Backend.CPU_PLAIN,
            threads = 3,
            threshold = 65,
            opacity = 35,
            source = sample,
        )
        assertEquals(expected, phone.state.settings)
    }

    @Test
    fun `every source is kept, but for a picture that cannot be read any more`() {
        val sources = listOf(
            Source.Golden,
            Source.Camera(Facing.FRONT),
            Source.Picture("content://photos/7"),
            Source.Sample("Bär = 7 #1.png"),
            null,
        )
        for (source in sources) {
            keeping { write(Settings(source = source)) }
            assertEquals(source, keeping { read() }?.source)
        }
        val mailed = Source.Picture("content://mail/7", isLasting = false)
        keeping { write(Settings(source = mailed)) }
        assertNull(keeping { read() }?.source)
    }

    @Test
    fun `what was chosen last is kept`() {
        keeping { for (threshold in 0..99) write(Settings(threshold = threshold)) }
        assertEquals(99, keeping { read() }?.threshold)
    }

    @Test
    fun `an app that cannot keep its settings goes on`() {
        file.parentFile!!.writeText("not a folder")
        keeping { write(Settings()) }
        assertNull(keeping { read() })
    }

    @Test
    fun `a photo is shown again only on the phone, and as long as, it can be read`() {
        val photo = Uri.parse("content://photos/7")
        val digit = File("../testing/models/digits-int8/samples/digit-2.png")
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(photo) { digit.inputStream() }
        val source = Source.Picture("$photo")
        phone.app.keptSettings.write(Settings(source = source))
        phone.app.endProcess()
        phone.app.store(null) // As the activity does it, without a saved state.
        phone.start()
        assertEquals(Source.Golden, phone.state.settings.source)
        phone.app.contentResolver
            .takePersistableUriPermission(photo, Intent.FLAG_GRANT_READ_URI_PERMISSION)
        phone.app.keptSettings.write(Settings(source = source))
        phone.app.endProcess()
        phone.app.store(null)
        phone.start()
        assertEquals(source, phone.state.settings.source)
        assertIs<Result.Answer>(phone.state.result)
    }

    @Test
    fun `what another version of the app wrote is no setting`() {
        assertNull(keeping { read() })
        keeping { write(Settings()) }
        val written = file.readText()
        assertIs<Settings>(keeping { read() })
        for (foreign in listOf("", "\\u00", written.replace("=CPU", "=DSP"))) {
            file.writeText(foreign)
            assertNull(keeping { read() })
        }
        keeping { write(Settings(threads = 3)) }
        assertEquals(3, keeping { read() }?.threads)
    }

    @Test
    fun `a backup has the settings, and nothing else`() {
        val settings = "file/$SETTINGS_FILE"
        assertEquals(listOf(settings), included(R.xml.backup_rules))
        // To the cloud, and to another phone.
        assertEquals(listOf(settings, settings), included(R.xml.data_extraction_rules))
    }

    /** As a process of its own. */
    private fun <T> keeping(use: KeptSettings.() -> T): T {
        val process = CoroutineScope(Dispatchers.IO)
        return KeptSettings(file, process).use().also { process.finish() }
    }

    private fun included(rules: Int): List<String> = buildList {
        val parser = phone.app.resources.getXml(rules)
        while (parser.next() != XmlPullParser.END_DOCUMENT) {
            if (parser.eventType != XmlPullParser.START_TAG || parser.name != "include") continue
            val (domain, path) = listOf("domain", "path").map { parser.getAttributeValue(null, it) }
            add("$domain/$path")
        }
    }
}
