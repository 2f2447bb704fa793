package dev.kerasvit.delegate

import com.sun.jna.Library
import com.sun.jna.NativeLibrary

/**
 * A native library whose functions nobody else sees.
 *
 * JNA's default shows them to all libraries that are loaded later, and another runtime of
 * TensorFlow Lite would then call functions of this one.
 *
 * @param name as `System.loadLibrary` takes it, or a path
 */
fun privateLibrary(name: String): NativeLibrary =
    NativeLibrary.getInstance(name, mapOf(Library.OPTION_OPEN_FLAGS to LAZY))

// RTLD_LAZY, without RTLD_GLOBAL.
private const val LAZY = 1
