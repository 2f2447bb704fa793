package dev.kerasvit.demo

import android.graphics.Bitmap
import android.graphics.Color
import androidx.compose.ui.semantics.SemanticsNode
import androidx.compose.ui.test.onNodeWithContentDescription
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.PatchColours
import dev.kerasvit.demo.source.AllBundles
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.jobOf
import dev.kerasvit.engine.Backend
import java.io.File
import kotlin.math.abs
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertTrue
import org.json.JSONArray
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner
import org.robolectric.RuntimeEnvironment

/** A model of feature maps, which become colours. */
@RunWith(RobolectricTestRunner::class)
class FeatureMapTest {
    @get:Rule
    val phone = Phone()

    @get:Rule
    val folder = TemporaryFolder()

    @Test
    fun `gives each sample the colours that Python gives`() {
        phone.withFeatureMaps().start()
        assertEquals(10, python.length())
        for (i in 0 until python.length()) {
            val expected = python.getJSONObject(i)
            val sample = expected.getString("picture")
            phone.tap(sampleNamed(sample.substringBefore('.')))
            assertNear(expected.getJSONArray("colours"), colours().rgb.toList(), sample)
            assertNear(expected.getJSONArray("fractions"), colours().fractions, sample)
        }
    }

    private fun assertNear(all: JSONArray, found: List<Number>, sample: String) {
        assertEquals(all.length(), found.size)
        for (i in found.indices) assertEquals(all.getDouble(i), found[i].toDouble(), 2e-3, sample)
    }

    @Test
    fun `an answer is a picture with one colour a patch, in light and dark`() {
        phone.withFeatureMaps().start()
        for ((qualifiers, name) in listOf("+notnight" to "light", "+night" to "dark")) {
            RuntimeEnvironment.setQualifiers(qualifiers)
            phone.recreate()
            phone.tap(sampleNamed("digit-7"))
            phone.screenshot("feature_map_$name")
            assertColours(phone.picture(), colours())
        }
        assertTrue(phone.shows(R.string.patches_meaning))
        phone.pullSheet()
        phone.screenshot("feature_map_details")
    }

    /** All over each patch, also close to its edges. */
    private fun assertColours(screen: Bitmap, colours: PatchColours) {
        val shown = picture().boundsInRoot
        assertEquals(shown.width, shown.height, 1f)
        for (patch in 0 until colours.rows * colours.columns) for (part in listOf(0.1f, 0.9f)) {
            val x = shown.left + (patch % colours.columns + part) * shown.width / colours.columns
            val y = shown.top + (patch / colours.columns + part) * shown.height / colours.rows
            val pixel = Color.valueOf(screen.getPixel(x.toInt(), y.toInt()))
            val channels = listOf(pixel.red(), pixel.green(), pixel.blue())
            for ((i, channel) in channels.withIndex()) {
                assertTrue(abs(channel - colours.rgb[patch * 3 + i]) <= 1f / 255, "$patch, $i")
            }
        }
    }

    @Test
    fun `details say how large the map is, and what the colours hold`() {
        phone.withFeatureMaps().start()
        phone.tap(sampleNamed("digit-7"))
        assertTrue(phone.shows("8 × 8 patches of 64 features"))
        assertTrue(phone.shows("Red 51.3% · Green 22.8% · Blue 9.1%"))
        assertFalse(phone.shows("classes") || phone.shows(R.string.similar_none))
        assertEquals(0, answer().rows.size)
        assertNull(answer().similar)
        phone.tap(R.string.settings_title)
        assertTrue(phone.shows(R.string.setting_threads))
        assertFalse(phone.shows(R.string.setting_threshold, "50%"))
    }

    @Test
    fun `a colour that holds nothing is not named`() {
        val none = PatchColours(1, 2, FloatArray(6) { 0.5f }, emptyList())
        phone.withFeatureMaps().start()
        val shown = answer().run { copy(patches = patches!!.copy(colours = none)) }
        val job = checkNotNull(jobOf(phone.state))
        phone.send(Event.Classified(job, false, shown, 0))
        assertTrue(phone.shows(R.string.variance_none))
        assertTrue(phone.shows(R.string.patches_shown, "2", "1"))
        assertFalse(phone.shows("Red"))
    }

    @Test
    fun `the picture has the form of what the model sees`() {
        val crops = listOf("null", "1.0")
        val models = folder.newFolder()
        for (crop in crops) {
            File("../testing/feature_maps/digits-map").copyRecursively(File(models, crop))
            val json = File(models, "$crop/model.json")
            json.writeText(json.readText().replace("\"crop\": null", "\"crop\": $crop"))
        }
        phone.app.testBundles = FolderBundles(models)
        phone.start()
        val file = File(models, "wide.png")
        val wide = Bitmap.createBitmap(80, 20, Bitmap.Config.ARGB_8888)
        file.outputStream().use { wide.compress(Bitmap.CompressFormat.PNG, 100, it) }
        phone.send(Event.ChooseSource(Source.Picture("file://${file.path}")))
        for ((crop, aspect) in crops.zip(listOf(4f, 1f))) {
            phone.send(Event.ChooseModel(crop))
            assertEquals(aspect, assertNotNull(answer().patches).aspect)
            val shown = picture().size
            assertEquals(aspect, shown.width.toFloat() / shown.height, 0.02f)
        }
    }

    @Test
    fun `the golden check compares features, and names no class`() {
        phone.withFeatureMaps().start()
        phone.tap(R.string.screen_verify)
        phone.tap(R.string.verify_start)
        val outcomes = phone.state.verification.verdicts.associate { it.backend to it.outcome }
        assertNull(assertIs<Outcome.Passed>(outcomes[Backend.CPU]).measured.foundClass)
        assertTrue(phone.shows(R.string.verify_features))
        assertFalse("class" in assertNotNull(phone.state.verification.report))
    }

    @Test
    fun `no class is searched, added or counted`() {
        phone.withFeatureMaps().start()
        phone.tap(R.string.screen_labels)
        assertTrue(phone.shows(R.string.labels_of_map))
        assertFalse(phone.shows(R.string.labels_search) || phone.shows(R.string.class_new))
        phone.send(Event.PickModel(rival = false))
        assertTrue(phone.shows("8 × 8 patches of 64 features"))
        assertFalse(phone.shows("classes"))
    }

    @Test
    fun `it is compared with a classifier`() {
        val maps = FolderBundles(File("../testing/feature_maps"))
        phone.app.testBundles = AllBundles(FolderBundles(File("../testing/models")), maps)
        phone.start()
        phone.send(Event.ChooseModel("digits-int8"))
        phone.send(Event.Show(Screen.COMPARE))
        phone.send(Event.PickModel(rival = true))
        phone.send(Event.ChooseModel("digits-map"))
        assertNotNull(assertIs<Result.Answer>(phone.state.rivalResult).patches)
        val shown = phone.activity.getString(R.string.patches_shown, "8", "8")
        assertTrue(phone.shows("digits-map: $shown"))
        for (id in listOf(R.string.compare_same, R.string.compare_unsure)) {
            assertFalse(phone.shows(id))
        }
        phone.screenshot("feature_map_compare")
        phone.tap(R.string.settings_title)
        assertTrue(phone.shows(R.string.setting_threshold, "50%"))
    }

    private val python = JSONArray(
        checkNotNull(javaClass.getResource("/fixtures/feature_maps.json")).readText(),
    )

    private fun answer(): Result.Answer = assertIs<Result.Answer>(phone.state.result)

    private fun colours(): PatchColours = assertNotNull(answer().patches).colours

    private fun picture(): SemanticsNode {
        val name = phone.activity.getString(R.string.patches_shown, "8", "8")
        return phone.rule.onNodeWithContentDescription(name).fetchSemanticsNode()
    }

    private fun sampleNamed(name: String) = phone.activity.getString(R.string.source_sample, name)
}
