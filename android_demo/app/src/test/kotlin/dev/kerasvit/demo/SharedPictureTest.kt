package dev.kerasvit.demo

import android.content.Intent
import android.net.Uri
import android.os.Bundle
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertNull
import org.junit.Before
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.Shadows.shadowOf

/** A picture that another app shares with this one. */
@RunWith(RobolectricTestRunner::class)
class SharedPictureTest {
    @get:Rule
    val phone = Phone()
    private val photo = Uri.parse("content://mail/7")

    @Before
    fun provide() {
        val file = File("../testing/models/digits-int8/samples/digit-2.png")
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(photo) { file.inputStream() }
    }

    @Test
    fun `it is classified when the app starts with it, and not again later`() {
        phone.start(intent = sending(photo))
        assertClassified()
        phone.returnAfterEnd()
        assertClassified()
        phone.send(Event.ChooseSource(Source.Golden))
        phone.start(phone.leave(), sending(photo))
        assertEquals(Source.Golden, phone.state.settings.source)
        val again = sending(photo).setFlags(Intent.FLAG_ACTIVITY_LAUNCHED_FROM_HISTORY)
        phone.start(intent = again)
        assertEquals(Source.Golden, phone.state.settings.source)
    }

    @Test
    fun `it is classified at once, whatever screen was shown`() {
        phone.start()
        phone.send(Event.Show(Screen.LABELS))
        phone.controller.newIntent(sending(photo))
        phone.settle()
        assertEquals(Screen.CLASSIFY, phone.state.settings.screen)
        assertClassified()
    }

    @Test
    fun `an app that does not give its picture is waited for until the user goes on`() {
        val stalled = StalledStream()
        shadowOf(phone.app.contentResolver).registerInputStream(photo, stalled)
        phone.start()
        phone.app.store(null).send(Event.ShowShared(Source.Picture("$photo", isLasting = false)))
        stalled.asked.await()
        phone.send(Event.ChooseSource(Source.Golden))
        assertIs<Result.Answer>(phone.state.result)
        stalled.end()
        phone.settle()
        assertEquals(Source.Golden, phone.state.settings.source)
        assertNull(phone.state.sourceProblem)
    }

    @Test
    fun `only what a content provider gives is read`() {
        assertEquals(photo, sharedPicture(sending(photo)))
        for (uri in listOf("file:///data/data/dev.kerasvit.demo/a", "https://a.b/c", "a")) {
            assertNull(sharedPicture(sending(Uri.parse(uri))), uri)
        }
    }

    @Test
    fun `other intents share no picture`() {
        assertNull(sharedPicture(Intent(Intent.ACTION_MAIN)))
        assertNull(sharedPicture(sending(photo).setType("text/plain")))
        assertNull(sharedPicture(sending(photo).setAction(Intent.ACTION_VIEW)))
        assertNull(sharedPicture(sending(null)))
        assertNull(sharedPicture(sending(null).putExtra(Intent.EXTRA_STREAM, Bundle())))
        assertNull(sharedPicture(sending(null).putExtra(Intent.EXTRA_STREAM, "content://a")))
    }

    private fun assertClassified() {
        assertEquals(Source.Picture("$photo", isLasting = false), phone.state.settings.source)
        assertEquals("2", assertIs<Result.Answer>(phone.state.result).rows[0].label)
    }

    private fun sending(uri: Uri?) =
        Intent(Intent.ACTION_SEND).setType("image/png").putExtra(Intent.EXTRA_STREAM, uri)
}
