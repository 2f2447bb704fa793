package androidx.test.platform.app

import android.app.Instrumentation
import android.os.Bundle

object InstrumentationRegistry {
    private var instance: Instrumentation? = null

    @JvmStatic
    fun registerInstance(instrumentation: Instrumentation?, arguments: Bundle?) {
        instance = instrumentation
    }

    @JvmStatic
    fun getInstrumentation(): Instrumentation = checkNotNull(instance)
}
