package dev.kerasvit.litert

import com.sun.jna.Library
import com.sun.jna.NativeLibrary
import java.util.concurrent.ConcurrentHashMap

/**
 * A native library whose functions nobody else sees, and which stays loaded.
 *
 * JNA's default shows them to all libraries that are loaded later, and another runtime of
 * TensorFlow Lite would then call functions of this one. It also unloads a library that nobody
 * refers to any more; what LiteRT left to be done at the end of the process is then gone, and the
 * process crashes.
 *
 * @param name as `System.loadLibrary` takes it, or a path
 */
fun privateLibrary(name: String): NativeLibrary = loaded.getOrPut(name) {
    NativeLibrary.getInstance(name, mapOf(Library.OPTION_OPEN_FLAGS to LAZY))
}

private val loaded = ConcurrentHashMap<String, NativeLibrary>()

// RTLD_LAZY, without RTLD_GLOBAL.
private const val LAZY = 1
