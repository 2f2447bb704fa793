package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.BitmapFactory
import android.graphics.Canvas
import android.graphics.Color
import android.graphics.Paint
import android.graphics.Rect
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Source
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** What the model leaves out of a picture is dimmed. */
@RunWith(RobolectricTestRunner::class)
class CropTest {
    @get:Rule
    val folder = TemporaryFolder()

    @get:Rule
    val phone = Phone()

    @Test
    fun `beside the part that the model sees, a picture is dimmed`() {
        val drawn = draw(crop = "0.5")
        assertEquals("2", assertIs<Result.Answer>(phone.state.result).rows[0].label)
        phone.screenshot("crop_light")
        // The digit is half as high as the wall, and only it is seen: the wall's colour is dimmed.
        assertTrue(WALL !in colours(drawn), "a part of the wall is not dimmed")
        assertTrue(DIMMED in colours(drawn), "the wall is not there")
    }

    @Test
    fun `a model that sees the whole picture dims nothing`() {
        val drawn = draw(crop = "null")
        assertTrue(WALL in colours(drawn))
    }

    private fun colours(drawn: Bitmap): Set<Int> {
        val pixels = IntArray(drawn.width * drawn.height / 2)
        drawn.getPixels(pixels, 0, drawn.width, 0, 0, drawn.width, drawn.height / 2)
        return pixels.toSet()
    }

    private fun draw(crop: String): Bitmap {
        val models = folder.newFolder()
        val json = File(copyOfBundle(models), "model.json")
        json.writeText(json.readText().replace("\"crop\": null", "\"crop\": $crop"))
        phone.app.testBundles = FolderBundles(models)
        phone.start()
        val file = File(folder.root, "picture.png")
        file.outputStream().use { picture().compress(Bitmap.CompressFormat.PNG, 100, it) }
        phone.send(Event.ChooseSource(Source.Picture("file://${file.path}")))
        return phone.picture()
    }

    /** A digit of 100 x 100 in the middle of a grey wall, 400 x 200. */
    private fun picture(): Bitmap {
        val samples = "../testing/models/digits-int8/samples"
        val digit = BitmapFactory.decodeFile("$samples/digit-2.png")
        val wall = Bitmap.createBitmap(400, 200, Bitmap.Config.ARGB_8888)
        val canvas = Canvas(wall)
        canvas.drawColor(WALL)
        canvas.drawBitmap(digit, null, Rect(150, 50, 250, 150), Paint(Paint.FILTER_BITMAP_FLAG))
        return wall
    }

    private companion object {
        val WALL = Color.rgb(150, 160, 166)
        val DIMMED = Color.rgb(75, 80, 83)
    }
}
