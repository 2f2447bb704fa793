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
import dev.kerasvit.demo.view.CropView
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
    private val phone = Phone()

    @Test
    fun `beside the part that the model sees, a picture is dimmed`() {
        val drawn = draw(crop = "0.5")
        val view = phone.activity.findViewById<CropView>(R.id.crop)
        val seen = view.seen
        // The picture of 400 x 200 has the width of the view; half of its height are the sides.
        val side = view.width / 4f
        assertEquals(side, seen.width(), 1f)
        assertEquals(side, seen.height(), 1f)
        assertEquals(view.width / 2f, seen.centerX(), 1f)
        assertEquals(0, drawn.getPixel(view.width / 2, view.height / 2))
        assertTrue(drawn.getPixel(view.width / 2 - side.toInt(), view.height / 2) != 0)
        assertEquals(0, drawn.getPixel(view.width / 2, 1)) // above the picture
        assertEquals("2", assertIs<Result.Answer>(phone.state.result).rows[0].label)
        phone.screenshot("crop_light")
    }

    @Test
    fun `a model that sees the whole picture dims nothing`() {
        val drawn = draw(crop = "null")
        val pixels = IntArray(drawn.width * drawn.height)
        drawn.getPixels(pixels, 0, drawn.width, 0, 0, drawn.width, drawn.height)
        assertTrue(pixels.all { it == 0 })
    }

    private fun draw(crop: String): Bitmap {
        val models = folder.newFolder()
        val json = File(copyOfBundle(models), "model.json")
        json.writeText(json.readText().replace("\"crop\": null", "\"crop\": $crop"))
        phone.app.testBundles = FolderBundles(models)
        phone.start()
        val file = File(folder.root, "picture.png")
        file.outputStream().use { picture().compress(Bitmap.CompressFormat.PNG, 100, it) }
        phone.app.store(null).send(Event.ChooseSource(Source.Picture("file://${file.path}")))
        phone.settle()
        val view = phone.activity.findViewById<CropView>(R.id.crop)
        val bitmap = Bitmap.createBitmap(view.width, view.height, Bitmap.Config.ARGB_8888)
        view.draw(Canvas(bitmap))
        return bitmap
    }

    /** A digit of 100 x 100 in the middle of a grey wall, 400 x 200. */
    private fun picture(): Bitmap {
        val digit = BitmapFactory.decodeFile("src/main/assets/samples/digit-2.png")
        val wall = Bitmap.createBitmap(400, 200, Bitmap.Config.ARGB_8888)
        val canvas = Canvas(wall)
        canvas.drawColor(Color.rgb(150, 160, 165))
        canvas.drawBitmap(digit, null, Rect(150, 50, 250, 150), Paint(Paint.FILTER_BITMAP_FLAG))
        return wall
    }
}
