package dev.kerasvit.demo

import android.app.Activity
import android.content.Intent
import android.net.Uri
import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.semantics.SemanticsNode
import androidx.compose.ui.semantics.SemanticsProperties
import androidx.compose.ui.semantics.getOrNull
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import java.io.File
import java.util.concurrent.CountDownLatch
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf

/** What is as it was after the phone was turned, and after the system ended the app's process. */
@RunWith(RobolectricTestRunner::class)
class RestoredTest {
    @get:Rule
    val phone = Phone()

    @Test
    fun `a photo that was picked is classified again`() {
        phone.start()
        val photo = pick("7")
        val before = assertIs<Result.Answer>(phone.state.result)
        phone.recreate()
        assertEquals(before, phone.state.result)
        phone.returnAfterEnd()
        assertEquals(Source.Picture("$photo"), phone.state.settings.source)
        assertEquals(before.rows, assertIs<Result.Answer>(phone.state.result).rows)
        assertTrue(phone.shows("%.1f%%".format(before.rows[0].probability * 100)))
    }

    /** Without it, the photo could be read only as long as the process lives. */
    @Test
    fun `the permission to read a photo is kept, and that of the photo before is given back`() {
        phone.start()
        for (digit in listOf("7", "3")) {
            val photo = pick(digit)
            val kept = phone.app.contentResolver.persistedUriPermissions
            assertEquals(listOf(photo), kept.map { it.uri })
            assertTrue(kept.single().isReadPermission)
        }
    }

    @Test
    fun `pages are where they were scrolled to`() {
        for (window in listOf("+w411dp-h500dp", "+w891dp-h411dp-land")) {
            RuntimeEnvironment.setQualifiers(window)
            phone.app.endProcess()
            phone.start()
            for (screen in listOf(Screen.COMPARE, Screen.CLASSIFY)) {
                phone.send(Event.Show(screen))
                if (window == "+w411dp-h500dp" && screen == Screen.CLASSIFY) phone.pullSheet()
                scroll(100_000f)
                val place = place()
                assertTrue(place > 0, "$window, $screen: $place")
                phone.recreate()
                assertEquals(place, place(), "$window, $screen: recreated")
                phone.returnAfterEnd()
                assertEquals(place, place(), "$window, $screen: ended")
            }
        }
    }

    @Test
    fun `a page that is scrolled before all is there stays where the user wants it`() {
        RuntimeEnvironment.setQualifiers("+w891dp-h411dp-land")
        phone.start()
        phone.send(Event.Show(Screen.COMPARE))
        scroll(100_000f)
        val end = place()
        val saved = phone.leave()
        phone.app.endProcess()
        val mayGoOn = CountDownLatch(1)
        phone.app.worker.post { mayGoOn.await() }
        phone.create(saved)
        phone.draw()
        scroll(-1f)
        mayGoOn.countDown()
        phone.settle()
        assertTrue(place() < end, "${place()} of $end")
    }

    @Test
    fun `the list of classes is where it was scrolled to`() {
        RuntimeEnvironment.setQualifiers("+w891dp-h411dp-land")
        phone.start()
        phone.send(Event.Show(Screen.LABELS))
        waitForClasses()
        scroll(300f)
        val place = place()
        assertTrue(place > 0, "$place")
        phone.recreate()
        waitForClasses()
        assertEquals(place, place(), "recreated")
        phone.returnAfterEnd()
        waitForClasses()
        assertEquals(place, place(), "ended")
        leaveBeforeClassesAreThere()
        waitForClasses()
        assertEquals(place, place(), "left before the classes were there")
    }

    private fun leaveBeforeClassesAreThere() {
        val first = phone.leave()
        phone.app.endProcess()
        val mayGoOn = CountDownLatch(1)
        phone.app.worker.post { mayGoOn.await() }
        phone.create(first)
        phone.draw()
        val second = phone.leave()
        mayGoOn.countDown()
        phone.start(second)
    }

    private fun waitForClasses() = phone.rule.waitUntil(60_000) { phone.shows("10 classes") }

    private fun pick(digit: String): Uri {
        val photo = Uri.parse("content://photos/$digit")
        val file = File("../testing/models/digits-int8/samples/digit-$digit.png")
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(photo) { file.inputStream() }
        phone.tap(R.string.source_picture)
        val asked = shadowOf(phone.activity).nextStartedActivityForResult.intent
        shadowOf(phone.activity)
            .receiveResult(asked, Activity.RESULT_OK, Intent().setData(photo))
        phone.settle()
        return photo
    }

    private fun scroll(by: Float) {
        val scroll = page().config[SemanticsActions.ScrollBy].action!!
        phone.rule.runOnUiThread { scroll(0f, by) }
        phone.draw()
    }

    private fun place(): Float = page().config[SemanticsProperties.VerticalScrollAxisRange].value()

    private fun page(): SemanticsNode = phone.nodes()
        .first { it.config.getOrNull(SemanticsProperties.VerticalScrollAxisRange) != null }
}
