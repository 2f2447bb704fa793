package dev.kerasvit.demo

import android.content.Context
import dev.kerasvit.android.liteRtEngines
import dev.kerasvit.engine.EngineFactory

/** The runtime of Android Studio's build. */
fun enginesOf(context: Context): EngineFactory = liteRtEngines(context)
