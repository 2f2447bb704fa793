package dev.kerasvit.demo

import android.app.Activity
import android.content.Intent
import android.net.Uri
import android.os.Bundle
import android.view.View
import android.widget.ListView
import android.widget.ScrollView
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import java.io.File
import java.util.concurrent.CountDownLatch
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment
import org.robolectric.Shadows.shadowOf

/** What is as it was after the phone was turned, and after the system ended the app's process. */
@RunWith(RobolectricTestRunner::class)
class RestoredTest {
    private val phone = Phone()

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
            for (screen in listOf(Screen.CLASSIFY, Screen.COMPARE)) {
                send(Event.Show(screen))
                for (page in pages()) page.scrollTo(0, page.getChildAt(0).height)
                val places = pages().map { it.scrollY }
                assertTrue(places.all { it > 0 }, "$window, $screen: $places")
                phone.recreate()
                assertEquals(places, pages().map { it.scrollY }, "$window, $screen: recreated")
                phone.returnAfterEnd()
                assertEquals(places, pages().map { it.scrollY }, "$window, $screen: ended")
            }
        }
    }

    @Test
    fun `a page that is scrolled before all is there stays where the user wants it`() {
        RuntimeEnvironment.setQualifiers("+w411dp-h500dp")
        phone.start()
        pages().single().run { scrollTo(0, getChildAt(0).height) }
        val saved = Bundle()
        phone.controller.pause().stop().saveInstanceState(saved).destroy()
        phone.app.endProcess()
        val mayGoOn = CountDownLatch(1)
        phone.app.worker.post { mayGoOn.await() }
        phone.create(saved)
        phone.draw()
        val page = pages().single()
        page.scrollTo(0, 5)
        val before = page.getChildAt(0).height
        mayGoOn.countDown()
        phone.settle()
        assertTrue(page.getChildAt(0).height > before, "nothing came later")
        assertEquals(5, page.scrollY)
    }

    @Test
    fun `the list of classes is where it was scrolled to`() {
        RuntimeEnvironment.setQualifiers("+w891dp-h411dp-land")
        phone.start()
        send(Event.Show(Screen.LABELS))
        labels().scrollListBy(labels().height / 2)
        phone.settle()
        val place = place()
        assertTrue(place.first > 0, "$place")
        phone.recreate()
        assertEquals(place, place(), "recreated")
        phone.returnAfterEnd()
        assertEquals(place, place(), "ended")
        leaveBeforeClassesAreThere()
        assertEquals(place, place(), "left before the classes were there")
    }

    private fun leaveBeforeClassesAreThere() {
        val first = Bundle()
        phone.controller.pause().stop().saveInstanceState(first).destroy()
        phone.app.endProcess()
        val mayGoOn = CountDownLatch(1)
        phone.app.worker.post { mayGoOn.await() }
        phone.create(first)
        phone.draw()
        assertEquals(0, labels().count)
        val second = Bundle()
        phone.controller.pause().stop().saveInstanceState(second).destroy()
        mayGoOn.countDown()
        phone.start(second)
    }

    private fun pick(digit: String): Uri {
        val photo = Uri.parse("content://photos/$digit")
        val file = File("src/main/assets/samples/digit-$digit.png")
        shadowOf(phone.app.contentResolver)
            .registerInputStreamSupplier(photo) { file.inputStream() }
        phone.tap(R.string.source_picture)
        val asked = shadowOf(phone.activity).nextStartedActivityForResult.intent
        shadowOf(phone.activity)
            .receiveResult(asked, Activity.RESULT_OK, Intent().setData(photo))
        phone.settle()
        return photo
    }

    private fun pages(): List<ScrollView> = phone.views().filterIsInstance<ScrollView>()

    private fun labels(): ListView = phone.activity.findViewById(R.id.labels)

    /** The first row that is seen, and where it begins. */
    private fun place(): Pair<Int, Int> =
        labels().firstVisiblePosition to labels().getChildAt(0).let(View::getTop)

    private fun send(event: Event) {
        phone.app.store(null).send(event)
        phone.settle()
    }
}
