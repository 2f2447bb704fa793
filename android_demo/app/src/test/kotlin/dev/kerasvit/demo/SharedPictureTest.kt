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

    @Test
    fun `it is classified at once, whatever screen was shown`() {
        val file = File("src/main/assets/bundles/digits-int8/samples/digit-2.png")
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(photo) { file.inputStream() }
        phone.start()
        phone.send(Event.Show(Screen.LABELS))
        phone.controller.newIntent(sending(photo))
        phone.settle()
        assertEquals(Screen.CLASSIFY, phone.state.settings.screen)
        assertEquals(Source.Picture("$photo", isLasting = false), phone.state.settings.source)
        assertEquals("2", assertIs<Result.Answer>(phone.state.result).rows[0].label)
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

    private fun sending(uri: Uri?) =
        Intent(Intent.ACTION_SEND).setType("image/png").putExtra(Intent.EXTRA_STREAM, uri)
}
