package dev.kerasvit.demo

import android.content.Context
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.interpreter.InterpreterEngines
import java.io.File

/** The runtime of the command-line build: the last one on Maven Central. */
@Suppress("UNUSED_PARAMETER")
fun enginesOf(context: Context): EngineFactory = InterpreterEngines()

/** The same outside an app. */
@Suppress("UNUSED_PARAMETER")
fun enginesOf(libraries: File, cache: File): EngineFactory = InterpreterEngines()
