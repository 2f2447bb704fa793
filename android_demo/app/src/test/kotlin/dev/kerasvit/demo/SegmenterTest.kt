package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.Color
import android.graphics.Rect
import androidx.compose.ui.semantics.SemanticsActions
import androidx.compose.ui.test.onNodeWithContentDescription
import androidx.compose.ui.test.performSemanticsAction
import dev.kerasvit.core.ClassShare
import dev.kerasvit.core.Mask
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.classColours
import dev.kerasvit.demo.source.AllBundles
import dev.kerasvit.demo.source.AssetBundles
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.jobOf
import dev.kerasvit.engine.Backend
import java.io.File
import java.util.Base64
import kotlin.math.abs
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertTrue
import org.json.JSONArray
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment

/** Segmenters: the one that the app is built with gives scores, the other one a class map. */
@RunWith(RobolectricTestRunner::class)
class SegmenterTest {
    @get:Rule
    val phone = Phone()

    @get:Rule
    val folder = TemporaryFolder()

    @Test
    fun `gives each sample the mask that Python gives`() {
        start("scenes-int8")
        val python = JSONArray(
            checkNotNull(javaClass.getResource("/fixtures/masks.json")).readText(),
        )
        assertEquals(6, python.length())
        for (i in 0 until python.length()) {
            val expected = python.getJSONObject(i)
            val sample = expected.getString("picture")
            phone.tap(sampleNamed(sample))
            val classes = Base64.getDecoder().decode(expected.getString("mask"))
            val others = mask().classes.indices.count { mask().classes[it] != classes[it].toInt() }
            assertTrue(others <= MOST_OTHERS * classes.size, "$sample: $others pixels")
            val best = expected.getJSONArray("shares").getJSONArray(1)
            assertEquals(best.getInt(0), mask().shares[1].classIndex, sample)
            assertEquals(best.getDouble(1), mask().shares[1].share, MOST_OTHERS, sample)
        }
    }

    @Test
    fun `a picture lies under its mask, whose classes are told, in light and dark`() {
        start("scenes-int8")
        for ((qualifiers, name) in listOf("+notnight" to "light", "+night" to "dark")) {
            RuntimeEnvironment.setQualifiers(qualifiers)
            phone.recreate()
            phone.tap(sampleNamed("8.png"))
            phone.screenshot("mask_$name")
        }
        val shown = listOf("background" to "82.4%", "8" to "16.0%", "6" to "1.6%")
        assertEquals(shown.size, mask().shares.size)
        for ((label, share) in shown) assertTrue("$label, $share" in phone.texts(), label)
        assertTrue("Mask of 3 classes" in phone.texts())
        assertEquals(0, answer().rows.size)
        phone.tap(R.string.settings_title)
        assertFalse(phone.shows(R.string.setting_threshold, "50%"))
    }

    @Test
    fun `each class has its own colour over what the model sees, and a background none`() {
        startWithWall(crop = "0.5")
        show(opacity = 0, made("cat", "background", "dog", "cat"))
        val seen = assertNotNull(placeOfColour(phone.picture(), WALL))
        assertTrue(seen.width() > 100 && abs(seen.width() - seen.height()) <= 2, "$seen")
        show(opacity = 100, made("cat", "background", "dog", "cat"))
        val screen = phone.picture()
        val (cat, _, dog) = classColours(listOf("cat", "background", "dog")).toList()
        // The list below the picture has the colours, too.
        val picture = Rect(0, 0, screen.width, seen.bottom + 9)
        fun found(colour: Int) = placeOfColour(screen, colour, picture)
        assertNear(seen, found(cat))
        assertNear(quarter(seen, column = 1, row = 0), found(WALL))
        assertNear(quarter(seen, column = 0, row = 1), found(dog))
        // Inside of the white edge of what is seen, there is no third colour between two classes.
        seen.inset(4, 4)
        assertEquals(setOf(cat, dog, WALL), colours(screen, seen))
    }

    @Test
    fun `the opacity is chosen with a slider, and kept`() {
        startWithWall(crop = "1.0")
        val all = made("cat", "cat", "cat", "cat")
        show(opacity = 60, all)
        val cat = classColours(listOf("cat"))[0]
        assertEquals(60, phone.state.settings.opacity)
        assertTrue(phone.shows(R.string.mask_opacity, "60%"))
        assertNotNull(placeOfColour(phone.picture(), mixed(cat, WALL, 0.6f)))
        val name = phone.activity.getString(R.string.mask_opacity_label)
        phone.rule.onNodeWithContentDescription(name)
            .performSemanticsAction(SemanticsActions.SetProgress) { it(21f) }
        phone.settle()
        assertEquals(20, phone.state.settings.opacity)
        assertNotNull(placeOfColour(phone.picture(), mixed(cat, WALL, 0.2f)))
        phone.leave()
        phone.app.endProcess()
        phone.start()
        assertEquals(20, phone.state.settings.opacity)
    }

    @Test
    fun `nine classes and more are eight and a sum`() {
        start("scenes-int8")
        val labels = List(10) { "class $it" }
        val shares = labels.mapIndexed { i, it -> ClassShare(i, it, if (i == 0) 0.91 else 0.01) }
        send(mask().run { Mask(width, height, classes, labels, shares, seen) })
        assertTrue("class 7, 1.0%" in phone.texts())
        assertFalse(phone.shows("class 8"))
        assertTrue("2 other classes: 2.0%" in phone.texts())
    }

    @Test
    fun `details and labels say what the model gives`() {
        start("scenes-int8")
        for (fact in listOf("Masks from scores of 32 × 32 places", "11 classes")) {
            assertTrue(phone.shows(fact), fact)
        }
        phone.tap(R.string.screen_labels)
        assertTrue(phone.shows("background") && phone.shows(R.string.labels_search))
        assertFalse(phone.shows(R.string.class_new))
        phone.send(Event.ChooseModel("scenes-map"))
        phone.send(Event.PickModel(rival = false))
        assertTrue(phone.shows("Masks of 32 × 32 pixels"))
    }

    @Test
    fun `the golden check compares scores and classes of pixels`() {
        start("scenes-int8")
        verify()
        assertTrue(phone.shows(R.string.verify_pixels, "0.00%", "4.10%"))
        assertTrue(phone.shows(R.string.verify_scores))
        assertFalse(phone.shows(R.string.verify_features))
        assertFalse("  class:" in assertNotNull(phone.state.verification.report))
    }

    @Test
    fun `the golden check compares the pixels of a class map`() {
        start("scenes-map")
        verify()
        assertTrue(phone.shows(R.string.verify_pixels, "0.00%", "4.10%"))
        assertFalse(phone.shows(R.string.verify_scores) || phone.shows(R.string.verify_features))
    }

    private fun verify() {
        phone.send(Event.Show(Screen.VERIFY))
        phone.tap(R.string.verify_start)
        val outcomes = phone.state.verification.verdicts.associate { it.backend to it.outcome }
        assertIs<Outcome.Passed>(outcomes[Backend.CPU])
    }

    @Test
    fun `masks that cannot be compared must be exported again`() {
        val golden = File(copied(), "golden.json")
        golden.writeText(golden.readText().replace("\"pixels\"", "\"others\""))
        phone.app.testBundles = FolderBundles(folder.root)
        phone.start()
        phone.send(Event.ChooseSource(Source.Sample("8.png")))
        assertTrue(mask().shares.isNotEmpty())
        phone.send(Event.Show(Screen.VERIFY))
        phone.tap(R.string.verify_start)
        assertIs<Problem.BadBundle>(phone.state.verification.problem)
        assertTrue(phone.shows("export it again"))
    }

    @Test
    fun `two models have a small mask each`() {
        start("scenes-int8")
        phone.send(Event.Show(Screen.COMPARE))
        phone.send(Event.PickModel(rival = true))
        phone.send(Event.ChooseModel("scenes-map"))
        phone.tap(sampleNamed("8.png"))
        for (model in listOf("scenes-int8", "scenes-map")) {
            assertTrue(phone.texts().any { "$model: Mask of" in it }, model)
            assertTrue(phone.texts().any { "$model: background, 82." in it }, model)
        }
        phone.screenshot("mask_compare")
    }

    private fun start(model: String) {
        val maps = FolderBundles(File("../testing/masks"))
        phone.app.testBundles = AllBundles(AssetBundles(phone.app.assets), maps)
        phone.start()
        phone.send(Event.ChooseModel(model))
    }

    /** With a wide grey picture, of which the model sees the middle. */
    private fun startWithWall(crop: String) {
        val json = File(copied(), "model.json")
        json.writeText(json.readText().replace("\"crop\": null", "\"crop\": $crop"))
        phone.app.testBundles = FolderBundles(folder.root)
        phone.start()
        val file = File(folder.newFolder("picture"), "wall.png")
        val wall = Bitmap.createBitmap(400, 200, Bitmap.Config.ARGB_8888)
        wall.eraseColor(WALL)
        file.outputStream().use { wall.compress(Bitmap.CompressFormat.PNG, 100, it) }
        phone.send(Event.ChooseSource(Source.Picture("file://${file.path}")))
    }

    private fun copied(): File {
        val copy = File(folder.root, "a-segmenter")
        File("src/main/assets/bundles/scenes-int8").copyRecursively(copy)
        return copy
    }

    /** A mask of 2 x 2 pixels, row by row. */
    private fun made(vararg names: String): Mask {
        val labels = listOf("cat", "background", "dog")
        val classes = IntArray(4) { labels.indexOf(names[it]) }
        val shares = names.distinct().map { ClassShare(labels.indexOf(it), it, 0.25) }
        return Mask(2, 2, classes, labels, shares, mask().seen)
    }

    private fun show(opacity: Int, mask: Mask) {
        phone.send(Event.ChooseOpacity(opacity))
        send(mask)
    }

    private fun send(mask: Mask) {
        val job = checkNotNull(jobOf(phone.state))
        phone.send(Event.Classified(job, false, answer().copy(mask = mask), 0))
    }

    private fun answer(): Result.Answer = assertIs<Result.Answer>(phone.state.result)

    private fun mask(): Mask = assertNotNull(answer().mask)

    private fun sampleNamed(name: String) =
        phone.activity.getString(R.string.source_sample, name.substringBefore('.'))

    private companion object {
        val WALL = Color.rgb(150, 160, 166)
        const val MOST_OTHERS = 0.01 // of the pixels; another processor may round otherwise
    }
}

private fun colours(screen: Bitmap, within: Rect): Set<Int> {
    val pixels = IntArray(within.width() * within.height())
    val width = within.width()
    screen.getPixels(pixels, 0, width, within.left, within.top, width, within.height())
    return pixels.toSet()
}

private fun mixed(over: Int, under: Int, opacity: Float): Int {
    val (red, green, blue) = listOf(16, 8, 0).map {
        val (one, other) = listOf(over, under).map { colour -> colour shr it and 0xFF }
        (one * opacity + other * (1 - opacity)).toInt()
    }
    return Color.rgb(red, green, blue)
}

private fun quarter(of: Rect, column: Int, row: Int): Rect {
    val (left, top) = of.left + column * of.width() / 2 to of.top + row * of.height() / 2
    return Rect(left, top, left + of.width() / 2, top + of.height() / 2)
}

private fun assertNear(expected: Rect, found: Rect?) {
    val sides = { it: Rect -> listOf(it.left, it.top, it.right, it.bottom) }
    val apart = sides(expected).zip(sides(assertNotNull(found))) { one, other -> abs(one - other) }
    assertTrue(apart.all { it <= 3 }, "expected $expected, found $found")
}
