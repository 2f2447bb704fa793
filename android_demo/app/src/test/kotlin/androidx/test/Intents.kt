package androidx.test.runner.intent

import android.app.Instrumentation.ActivityResult
import android.content.Intent

interface IntentMonitor

interface IntentStubber {
    fun getActivityResultForIntent(intent: Intent): ActivityResult?
}

object IntentMonitorRegistry {
    @JvmStatic
    fun registerInstance(monitor: IntentMonitor) = Unit
}

object IntentStubberRegistry {
    @JvmStatic
    fun isLoaded(): Boolean = false

    @JvmStatic
    fun getInstance(): IntentStubber = error("no stubber: isLoaded is false")
}
