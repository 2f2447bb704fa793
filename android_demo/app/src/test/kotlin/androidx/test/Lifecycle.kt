package androidx.test.runner.lifecycle

import android.app.Activity

enum class Stage { PRE_ON_CREATE, CREATED, STARTED, RESUMED, PAUSED, STOPPED, RESTARTED, DESTROYED }

enum class ApplicationStage { PRE_ON_CREATE, CREATED }

interface ActivityLifecycleMonitor {
    fun getActivitiesInStage(stage: Stage): Collection<Activity>
}

interface ApplicationLifecycleMonitor

object ActivityLifecycleMonitorRegistry {
    private lateinit var instance: ActivityLifecycleMonitor

    @JvmStatic
    fun registerInstance(monitor: ActivityLifecycleMonitor) {
        instance = monitor
    }

    @JvmStatic
    fun getInstance(): ActivityLifecycleMonitor = instance
}

object ApplicationLifecycleMonitorRegistry {
    @JvmStatic
    fun registerInstance(monitor: ApplicationLifecycleMonitor) = Unit
}
