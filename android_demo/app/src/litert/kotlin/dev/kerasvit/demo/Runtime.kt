package dev.kerasvit.demo

import android.content.Context
import dev.kerasvit.android.liteRtEngines
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.litert.CompiledModelEngines
import java.io.File

/** The runtime of Android Studio's build. */
fun enginesOf(context: Context): EngineFactory = liteRtEngines(context)

/** The same outside an app. */
fun enginesOf(libraries: File, cache: File): EngineFactory =
    CompiledModelEngines(vendors = libraries, cache = cache.apply { mkdirs() })
