package dev.kerasvit.demo

import androidx.test.platform.app.InstrumentationRegistry
import dev.kerasvit.android.AssetFiles
import dev.kerasvit.android.bundleNames
import dev.kerasvit.core.Outcome
import dev.kerasvit.core.readBundle
import dev.kerasvit.core.report
import dev.kerasvit.core.verify
import dev.kerasvit.engine.Backend
import org.junit.Assert.assertFalse
import org.junit.Assert.assertTrue
import org.junit.Test

/** On a phone, by `./gradlew connectedDebugAndroidTest`. */
class GoldenCheckTest {
    // Names with spaces need Android 11.
    @Test
    fun everyModelOfTheAppComputesWhatPythonDid() {
        val context = InstrumentationRegistry.getInstrumentation().targetContext
        val engines = enginesOf(context)
        val names = bundleNames(context.assets)
        assertFalse("the app has no models", names.isEmpty())
        for (name in names) {
            val files = AssetFiles(context.assets, name)
            val bundle = readBundle(files)
            val verdicts = verify(files, bundle, engines)
            val text = report("this phone", engines.runtime, bundle, verdicts)
            for (verdict in verdicts) {
                // What a phone does not have, it refuses; a CPU each has.
                val mayRefuse = verdict.backend != Backend.CPU
                val isRefused = mayRefuse && verdict.outcome is Outcome.Refused
                assertTrue(text, isRefused || verdict.outcome is Outcome.Passed)
            }
        }
    }
}
