package dev.kerasvit.demo

import android.content.Context
import dev.kerasvit.engine.EngineFactory
import dev.kerasvit.interpreter.InterpreterEngines

/** The runtime of the command-line build: the last one on Maven Central. */
@Suppress("UNUSED_PARAMETER")
fun enginesOf(context: Context): EngineFactory = InterpreterEngines()
