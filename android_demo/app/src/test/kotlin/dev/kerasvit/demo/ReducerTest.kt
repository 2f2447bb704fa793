package dev.kerasvit.demo

import dev.kerasvit.core.BackendVerdict
import dev.kerasvit.core.BundleProblem
import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.Prediction
import dev.kerasvit.core.readBundle
import dev.kerasvit.demo.state.Event
import dev.kerasvit.demo.state.Facing
import dev.kerasvit.demo.state.Job
import dev.kerasvit.demo.state.Model
import dev.kerasvit.demo.state.Permission
import dev.kerasvit.demo.state.Preview
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.demo.state.Sample
import dev.kerasvit.demo.state.Screen
import dev.kerasvit.demo.state.Settings
import dev.kerasvit.demo.state.Source
import dev.kerasvit.demo.state.Time
import dev.kerasvit.demo.state.Times
import dev.kerasvit.demo.state.UiState
import dev.kerasvit.demo.state.beginning
import dev.kerasvit.demo.state.isNamed
import dev.kerasvit.demo.state.jobOf
import dev.kerasvit.demo.state.reduce
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineFailure
import dev.kerasvit.engine.EngineInfo
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertFalse
import kotlin.test.assertIs
import kotlin.test.assertNotEquals
import kotlin.test.assertNotNull
import kotlin.test.assertNull
import kotlin.test.assertSame
import kotlin.test.assertTrue
import org.junit.Test

class ReducerTest {
    private fun listed(settings: Settings = Settings()): UiState =
        reduce(UiState(settings), Event.ModelsListed(listOf("a", "b"), emptySet()))

    @Test
    fun `the camera replaces the picture at once, even where it is not allowed`() {
        val shown = UiState(
            settings = Settings(source = Source.Sample("a.png")),
            preview = object : Preview {},
            permission = Permission.REFUSED,
        )
        val next = reduce(shown, Event.ChooseSource(Source.Camera(Facing.BACK)))
        assertEquals(null, next.preview)
        assertEquals(Problem.PermissionRefused(forEver = false), next.sourceProblem)
        val other = reduce(shown, Event.ChooseSource(Source.Sample("b.png")))
        assertEquals(shown.preview, other.preview)
    }

    @Test
    fun `the first model, its picture and the next one to compare with are chosen`() {
        val settings = listed().settings
        assertEquals("a", settings.model)
        assertEquals("b", settings.rival)
        assertEquals(Source.Golden, settings.source)
    }

    @Test
    fun `a saved model that the app no longer has is replaced`() {
        assertEquals("a", listed(Settings(model = "x")).settings.model)
    }

    @Test
    fun `a sample that the model does not have is replaced by its own picture`() {
        val saved = listed(Settings(source = Source.Sample("a.png")))
        assertEquals(Source.Sample("a.png"), saved.settings.source, "nothing has been read")
        val samples = listOf(Sample("a.png"))
        var state = reduce(saved, Event.ModelRead(read("a").copy(samples = samples)))
        assertEquals(Source.Sample("a.png"), state.settings.source)
        state = reduce(state, Event.ModelRead(read("b")))
        assertEquals(Source.Golden, reduce(state, Event.ChooseModel("b")).settings.source)
    }

    @Test
    fun `an added model is chosen for what it was wanted`() {
        val compared = reduce(ready(), Event.Show(Screen.COMPARE))
        val wanted = reduce(compared, Event.PickModel(rival = true))
        assertEquals("c", reduce(wanted, Event.Added("c")).settings.rival)
        assertEquals(Screen.COMPARE, reduce(wanted, Event.Added("c")).settings.screen)
        val shared = reduce(compared, Event.Added("c")).settings
        assertEquals("c" to Screen.CLASSIFY, shared.model to shared.screen)
    }

    @Test
    fun `nothing is computed for a camera that is not allowed`() {
        val allowed = ready(Source.Camera(Facing.BACK))
        assertNotNull(jobOf(allowed))
        assertNull(jobOf(reduce(allowed, Event.PermissionChanged(Permission.REFUSED))))
    }

    @Test
    fun `models are read again where that may help`() {
        val damaged = Problem.BadBundle("a", BundleProblem.Missing("labels.txt"))
        val expected = mapOf(damaged to false, Problem.OutOfMemory to true)
        for ((problem, isWanted) in expected) {
            val state = reduce(ready(), Event.ModelRead(Model("a", problem = problem)))
            assertEquals(isWanted, state.isReadingWanted, "$problem")
        }
    }

    @Test
    fun `nothing is computed with a model whose files change`() {
        for (event in listOf(Event.Added("a"), Event.Remove("a"))) {
            val changing = reduce(ready(), event)
            assertNull(jobOf(changing))
            val changed = reduce(changing, Event.ModelRead(read("a")))
            assertNotEquals(jobOf(ready()), jobOf(changed))
        }
    }

    @Test
    fun `a check ends where a zip is added, and its verdicts go with the model's files`() {
        val checking = reduce(reduce(ready(), Event.Show(Screen.VERIFY)), Event.Verify)
        val verdict = BackendVerdict(Backend.CPU, Outcome.Refused(EngineFailure.REFUSED, "no"))
        val told = reduce(checking, Event.BackendVerified(checking.verification.run, verdict))
        val adding = reduce(told, Event.AddZip("content://a"))
        assertEquals(listOf(verdict) to false, adding.verification.run { verdicts to isRunning })
        assertEquals(1, reduce(adding, Event.Remove("b")).verification.verdicts.size)
        assertEquals(0, reduce(adding, Event.Remove("a")).verification.verdicts.size)
    }

    @Test
    fun `a saved choice is kept`() {
        val saved = Settings(model = "b", rival = "b", source = Source.Picture("content://1"))
        assertEquals(saved, listed(saved).settings)
    }

    @Test
    fun `a damaged model has a problem and no job`() {
        val problem = Problem.BadBundle("a", BundleProblem.Missing("labels.txt"))
        val state = reduce(listed(), Event.ModelRead(Model("a", problem = problem)))
        assertNull(jobOf(state))
        val failed = assertIs<Result.Failed>(state.shownResult)
        assertEquals(problem, failed.problem)
    }

    @Test
    fun `where there is no picture there is no result`() {
        val shown = ready(Source.Camera(Facing.BACK)).classified("cat", atMillis = 0)
        assertIs<Result.Answer>(shown.shownResult)
        val refused = reduce(shown, Event.PermissionChanged(Permission.REFUSED))
        assertEquals(Result.None, refused.shownResult)
    }

    @Test
    fun `the camera is wanted only with permission, and not after it failed`() {
        val camera = Source.Camera(Facing.BACK)
        var state = reduce(listed(), Event.ChooseSource(camera))
        assertNull(state.wantedCamera)
        state = reduce(state, Event.PermissionChanged(Permission.GRANTED))
        assertEquals(Facing.BACK, state.wantedCamera)
        state = reduce(state, Event.SourceFailed(camera, Problem.CameraInUse))
        assertNull(state.wantedCamera)
        assertEquals(Facing.BACK, reduce(state, Event.Retry).wantedCamera)
    }

    @Test
    fun `a device with only a front camera uses that one`() {
        val asked = reduce(listed(), Event.ChooseSource(Source.Camera(Facing.BACK)))
        val state = reduce(asked, Event.CamerasFound(listOf(Facing.FRONT)))
        assertEquals(Source.Camera(Facing.FRONT), state.settings.source)
    }

    @Test
    fun `a side without a camera is replaced, as the activity looks for cameras first`() {
        val found = reduce(listed(), Event.CamerasFound(listOf(Facing.FRONT)))
        val state = reduce(found, Event.ChooseSource(Source.Camera(Facing.BACK)))
        assertEquals(Source.Camera(Facing.FRONT), state.settings.source)
    }

    @Test
    fun `a source that failed is another job when it is chosen again`() {
        val source = Source.Picture("content://1")
        val chosen = reduce(listed(), Event.ChooseSource(source))
        assertEquals(chosen.attempt, reduce(chosen, Event.ChooseSource(source)).attempt)
        val failed = reduce(chosen, Event.SourceFailed(source, Problem.PictureGone))
        val again = reduce(failed, Event.ChooseSource(source))
        assertNull(again.sourceProblem)
        assertTrue(again.attempt > chosen.attempt)
    }

    @Test
    fun `a check ends when its screen is left`() {
        val shown = reduce(listed(), Event.Show(Screen.VERIFY))
        val running = reduce(shown, Event.Verify)
        assertEquals(running, reduce(running, Event.ChooseBackend(running.settings.backend)))
        assertFalse(reduce(running, Event.Show(Screen.CLASSIFY)).verification.isRunning)
    }

    @Test
    fun `a check that is stopped keeps its verdicts and takes no more`() {
        val refused = Outcome.Refused(EngineFailure.REFUSED, "a reason")
        val verdict = BackendVerdict(Backend.CPU, refused)
        val running = reduce(listed(), Event.Verify)
        val found = reduce(running, Event.BackendVerified(running.verification.run, verdict))
        val stopped = reduce(found, Event.StopVerifying)
        assertFalse(stopped.verification.isRunning)
        assertEquals(listOf(verdict), stopped.verification.verdicts)
        val late = Event.BackendVerified(running.verification.run, verdict)
        assertEquals(stopped, reduce(stopped, late))
    }

    @Test
    fun `a failure of an earlier source is not shown for a later one`() {
        val state = reduce(listed(), Event.ChooseSource(Source.Picture("content://2")))
        val late = Event.SourceFailed(Source.Picture("content://1"), Problem.PictureGone)
        assertEquals(state, reduce(state, late))
    }

    @Test
    fun `a class is named from the threshold on, and the threshold itself is enough`() {
        for (percent in 0..100) {
            val exactly = Prediction(0, "cat", percent / 100.0)
            assertTrue(exactly.isNamed(percent), "$percent")
            assertFalse(exactly.copy(probability = exactly.probability - 1e-9).isNamed(percent))
        }
    }

    @Test
    fun `another class of a picture is announced at once, of a camera after two seconds`() {
        val picture = ready(Source.Golden).classified("cat", 0).classified("dog", 100)
        assertEquals("dog", picture.announcement?.label)
        var camera = ready(Source.Camera(Facing.BACK)).classified("cat", 0)
        camera = camera.classified("dog", 1_999)
        assertEquals("cat", camera.announcement?.label)
        camera = camera.classified("dog", 2_000)
        assertEquals("dog", camera.announcement?.label)
        assertSame(camera.announcement, camera.classified("dog", 9_000).announcement)
    }

    @Test
    fun `a threshold that the class does not reach is announced`() {
        val named = ready(Source.Golden).classified("cat", 0)
        assertNull(reduce(named, Event.ChooseThreshold(95)).announcement?.label)
        assertEquals("cat", reduce(named, Event.ChooseThreshold(90)).announcement?.label)
    }

    @Test
    fun `an answer stays until the next one comes, and a failure does not`() {
        val state = ready(Source.Golden).classified("cat", 0)
        val job = checkNotNull(jobOf(state))
        val working = assertIs<Result.Working>(state.beginning(job).result)
        assertEquals<Result?>(state.result, working.previous)
        val again = assertIs<Result.Working>(state.beginning(job).beginning(job).result)
        assertEquals<Result?>(state.result, again.previous)
        val failed = state.copy(result = Result.Failed(Problem.OutOfMemory)).beginning(job)
        assertEquals<Result>(Result.Working(), failed.result)
        assertEquals<Result>(Result.None, failed.rivalResult)
    }

    @Test
    fun `asleep, the app has no job and no picture`() {
        val state = ready(Source.Golden).copy(preview = object : Preview {})
        val asleep = reduce(state, Event.Sleep)
        assertNull(jobOf(asleep))
        assertNull(asleep.preview)
        assertEquals(jobOf(state), jobOf(reduce(asleep, Event.Wake)))
    }

    @Test
    fun `what the app remembers at its next start is what was chosen, not where the user was`() {
        val picture = Source.Picture("content://1")
        val settings = Settings(Screen.MODELS, Screen.COMPARE, true, picture, "a", query = "cat")
        assertEquals(Settings(source = picture, model = "a"), settings.choices)
        assertNull(settings.copy(source = picture.copy(isLasting = false)).choices.source)
    }

    /** The model "a" is read, and the source can be used. */
    private fun read(name: String) =
        Model(name, readBundle(FolderFiles(File("../testing/models/digits-int8"))))

    private fun ready(source: Source = Source.Golden): UiState {
        val state = reduce(listed(), Event.ModelRead(read("a")))
        return reduce(
            reduce(state, Event.ChooseSource(source)),
            Event.PermissionChanged(Permission.GRANTED),
        )
    }

    private fun UiState.classified(label: String, atMillis: Long): UiState {
        val time = Time(1.0, 1.0)
        val answer = Result.Answer(
            "a",
            listOf(Prediction(0, label, 0.9)),
            EngineInfo(Backend.CPU, 2, "a runtime", 1),
            operators = 1,
            times = Times(1, time, time, time),
        )
        val job = checkNotNull(jobOf(this))
        return reduce(this, Event.Classified(job, false, answer, atMillis))
    }

    @Test
    fun `a result that comes late, for another job, is dropped`() {
        val job = Job(Source.Sample("x.png"), "a", null, Backend.CPU, 2, 0)
        val late = Event.Classified(job, false, Result.Failed(Problem.OutOfMemory), 0)
        assertEquals(listed(), reduce(listed(), late))
    }

    @Test
    fun `verdicts are forgotten when they are no longer about the chosen model`() {
        val running = reduce(listed(), Event.Verify)
        assertEquals(true, running.verification.isRunning)
        assertEquals(running, reduce(running, Event.Verify))
        assertNull(reduce(running, Event.ChooseModel("b")).verification.model)
    }
}
