package dev.kerasvit.demo

import dev.kerasvit.android.LiteRtEngines
import dev.kerasvit.demo.state.Problem
import dev.kerasvit.demo.state.Result
import dev.kerasvit.engine.EngineFailure
import java.io.File
import kotlin.test.assertEquals
import kotlin.test.assertIs
import kotlin.test.assertTrue
import org.junit.Before
import org.junit.Test
import org.junit.runner.RunWith
import org.robolectric.RobolectricTestRunner

/** The app's screens with the APK's own runtime, on this computer's JVM. */
@RunWith(RobolectricTestRunner::class)
class ApkRuntimeTest {
    private val phone = Phone()

    @Before
    fun loadLibraries() = loadRuntimeOfApk()

    @Test
    fun `a model that needs a newer runtime is refused, and the screen names both runtimes`() {
        phone.app.testEngines = LiteRtEngines()
        phone.app.testBundles = FolderBundles(File("src/test/resources/fixtures/bundles"))
        phone.start()
        val failed = assertIs<Result.Failed>(phone.state.result)
        val problem = assertIs<Problem.EngineFailed>(failed.problem)
        assertEquals(EngineFailure.TOO_OLD, problem.kind, problem.reason)
        assertTrue("'FULLY_CONNECTED' version '12'" in problem.reason, problem.reason)
        assertEquals("2.17.0", problem.runtimeFloor)
        assertEquals("TensorFlow Lite 2.16.1", problem.runtime)
        assertTrue(phone.shows(R.string.problem_too_old))
        val body = R.string.problem_too_old_body
        assertTrue(phone.shows(body, problem.runtimeFloor, problem.runtime), "${phone.texts()}")
        phone.screenshot("problem_too_old")
    }
}
