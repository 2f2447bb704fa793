package androidx.test.internal.runner.lifecycle

import android.app.Activity
import android.app.Application
import androidx.test.runner.lifecycle.ActivityLifecycleMonitor
import androidx.test.runner.lifecycle.ApplicationLifecycleMonitor
import androidx.test.runner.lifecycle.ApplicationStage
import androidx.test.runner.lifecycle.Stage

class ActivityLifecycleMonitorImpl : ActivityLifecycleMonitor {
    private val stages = LinkedHashMap<Activity, Stage>()

    fun signalLifecycleChange(stage: Stage, activity: Activity) {
        stages[activity] = stage
    }

    override fun getActivitiesInStage(stage: Stage) = stages.filterValues { it == stage }.keys
}

class ApplicationLifecycleMonitorImpl : ApplicationLifecycleMonitor {
    fun signalLifecycleChange(application: Application, stage: ApplicationStage) = Unit
}
