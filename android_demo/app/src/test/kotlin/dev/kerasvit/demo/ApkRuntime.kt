package dev.kerasvit.demo

import java.io.File
import org.junit.Assume.assumeNotNull

/**
 * Loads the APK's x86-64 runtime into this process, for the classes of the caller's class loader.
 *
 * Gradle's build has no such libraries: tools/android_libraries.py makes them for Maven's.
 */
fun loadRuntimeOfApk() {
    val folder = System.getProperty("android.libraries")
    assumeNotNull(folder)
    System.setProperty("jna.library.path", folder)
    for (name in listOf("libc", "libm", "libdl", "liblog", "libtensorflowlite_jni")) {
        System.load(File(folder, "$name.so").path)
    }
}
