package dev.kerasvit.demo

import dev.kerasvit.core.BundleProblem
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.Voters
import dev.kerasvit.demo.source.AllBundles
import dev.kerasvit.demo.source.BitmapPreview
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.engine.Backend
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertSame
import kotlin.test.assertTrue
import org.json.JSONObject
import org.junit.Rule
import org.junit.Test
import org.junit.rules.TemporaryFolder
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** A model of features, whose pictures are compared with those of its gallery. */
@RunWith(RobolectricTestRunner::class)
class FeaturesTest {
    @get:Rule
    val phone = Phone()

    @get:Rule
    val folder = TemporaryFolder()

    @Test
    fun `gives each sample the similar pictures that Python gives, and shares of means`() =
        givesWhatPythonGives(Voters.MEANS)

    @Test
    fun `gives each sample the shares of the nearest pictures that Python gives`() =
        givesWhatPythonGives(Voters.PICTURES)

    /** At a temperature that leaves each class a part of the votes. */
    private fun givesWhatPythonGives(of: Voters) {
        phone.app.testBundles = FolderBundles(copy { gallery ->
            val text = gallery.readText().replace("0.07", "1.0")
            gallery.writeText(text.replace("\"means\"", "\"${of.jsonName}\""))
        })
        phone.start()
        assertEquals(10, python.length())
        for (sample in python.keys()) {
            val expected = python.getJSONObject(sample)
            phone.tap(sampleNamed(sample.substringBefore('.')))
            val similar = checkNotNull(answer().similar)
            assertEquals(5, similar.size)
            val pictures = expected.getJSONArray("similar")
            for (place in 0..2) {
                val picture = pictures.getJSONObject(place)
                assertEquals(picture.getString("picture"), similar[place].name, sample)
                val cosine = picture.getDouble("similarity")
                assertEquals(cosine, similar[place].similarity, 1e-3, sample)
            }
            val shares = expected.getJSONObject(of.jsonName)
            assertEquals(5, answer().rows.size)
            for (row in answer().rows) {
                assertEquals(shares.getDouble(row.label), row.probability, 1e-3, sample)
            }
        }
    }

    @Test
    fun `an answer has classes, and thumbnails with their similarity`() {
        phone.withFeatures().start()
        phone.tap(sampleNamed("digit-7"))
        assertEquals("7", answer().rows[0].label)
        val similar = checkNotNull(answer().similar)
        assertTrue(phone.shows(R.string.similar_title))
        for (each in similar) {
            assertIs<BitmapPreview>(each.thumbnail)
            assertTrue(phone.texts().contains("${each.name}, %.2f".format(each.similarity)))
        }
        for (fact in listOf("64 features", "Gallery of 60 pictures", "10 classes")) {
            assertTrue(phone.shows(fact))
        }
        phone.screenshot("similar_light")
        phone.tap(sampleNamed("digit-1"))
        phone.tap(sampleNamed("digit-7"))
        assertSame(similar[0].thumbnail, checkNotNull(answer().similar)[0].thumbnail)
    }

    @Test
    fun `a picture of which there is no thumbnail is still named`() {
        phone.app.testBundles = FolderBundles(copy { gallery ->
            for (i in 0..59) File(gallery.parentFile, "$i.jpg").delete()
        })
        phone.start()
        val similar = checkNotNull(answer().similar)
        assertTrue(similar.all { it.thumbnail == null })
        assertTrue(phone.shows("${similar[0].name}, "))
    }

    @Test
    fun `without a gallery there is nothing to compare with, and the app says so`() {
        phone.app.testBundles = FolderBundles(copy { it.parentFile!!.deleteRecursively() })
        phone.start()
        assertTrue(phone.shows(R.string.similar_none))
        assertEquals(0 to 0, answer().run { rows.size to checkNotNull(similar).size })
        assertFalse(phone.shows("Gallery"))
        assertFalse(phone.shows("classes"))
        phone.tap(R.string.screen_labels)
        phone.rule.waitUntil(60_000) { phone.shows(R.string.labels_of_no_classes) }
    }

    @Test
    fun `a gallery of another model is told`() {
        phone.app.testBundles = FolderBundles(copy { gallery ->
            gallery.writeText(gallery.readText().replace("\"features\": 64", "\"features\": 65"))
        })
        phone.start()
        val problem = assertIs<Result.Failed>(phone.state.shownResult).problem
        assertIs<BundleProblem.BadGallery>(assertIs<Problem.BadBundle>(problem).problem)
        assertTrue(phone.shows(R.string.problem_gallery))
    }

    @Test
    fun `the golden check compares features, and names no class`() {
        phone.withFeatures().start()
        phone.tap(R.string.screen_verify)
        phone.tap(R.string.verify_start)
        val outcomes = phone.state.verification.verdicts.associate { it.backend to it.outcome }
        assertNull(assertIs<Outcome.Passed>(outcomes[Backend.CPU]).measured.foundClass)
        assertTrue(phone.shows(R.string.verify_features))
        assertFalse(phone.texts().contains(phone.activity.getString(R.string.verify_class)))
        assertFalse("class" in assertNotNull(phone.state.verification.report))
    }

    @Test
    fun `it is compared with a classifier, and its classes are searched`() {
        val features = FolderBundles(File("../testing/features"))
        phone.app.testBundles = AllBundles(FolderBundles(File("../testing/models")), features)
        phone.start()
        phone.send(Event.ChooseModel("digits-int8"))
        phone.send(Event.Show(Screen.COMPARE))
        phone.send(Event.PickModel(rival = true))
        phone.send(Event.ChooseModel("digits-features"))
        assertTrue(phone.shows(R.string.compare_same))
        val rival = assertIs<Result.Answer>(phone.state.rivalResult)
        val first = checkNotNull(rival.similar)[0]
        val spoken = "digits-features: ${first.name}, %.2f".format(first.similarity)
        assertTrue(phone.texts().contains(spoken))
        phone.screenshot("similar_compare")
        phone.send(Event.PickModel(rival = false))
        phone.send(Event.ChooseModel("digits-features"))
        phone.tap(R.string.screen_labels)
        phone.write("7")
        phone.rule.waitUntil(60_000) { phone.shows("1 class") }
    }

    private val python = JSONObject(
        checkNotNull(javaClass.getResource("/fixtures/similar.json")).readText(),
    )

    private fun answer(): Result.Answer = assertIs<Result.Answer>(phone.state.result)

    private fun sampleNamed(name: String) = phone.activity.getString(R.string.source_sample, name)

    /** A folder with a copy of the model, whose gallery.json [change] gets. */
    private fun copy(change: (File) -> Unit): File {
        val models = folder.newFolder()
        File("../testing/features").copyRecursively(models, overwrite = true)
        change(File(models, "digits-features/gallery/gallery.json"))
        return models
    }
}
