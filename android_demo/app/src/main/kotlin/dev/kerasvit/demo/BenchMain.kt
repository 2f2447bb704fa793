package dev.kerasvit.demo

import dev.kerasvit.core.FolderFiles
import dev.kerasvit.core.benchmark
import dev.kerasvit.engine.Backend
import dev.kerasvit.engine.EngineOptions
import java.io.File
import kotlin.system.exitProcess

/**
 * Measures a bundle on one backend, for `keras-vit bench`: that command starts this class from the
 * APK by a shell, without installing the app.
 *
 * The arguments are a folder with a bundle in `bundle`, the APK's native libraries in `lib` and room
 * for what a GPU compiles in `cache`; then a backend, a number of threads, and of seconds.
 */
object BenchMain {
    @JvmStatic
    fun main(arguments: Array<String>) {
        // Android writes what nobody catches to its log only.
        val status = try {
            run(arguments, ::tell)
            0
        } catch (error: Throwable) {
            println(error.stackTraceToString())
            println(error) // The last line is the one that is shown.
            1
        }
        exitProcess(status)
    }

    internal fun run(arguments: Array<String>, tell: (String) -> Unit) {
        val (folder, backend, threads, seconds) = arguments
        val options = EngineOptions(Backend.valueOf(backend), threads.toInt())
        val engines = enginesOf(libraries = File(folder, "lib"), cache = File(folder, "cache"))
        benchmark(FolderFiles(File(folder, "bundle")), engines, options, seconds.toInt(), tell = tell)
    }

    internal fun tell(line: String) {
        println(line)
        // Nobody listens any more: the phone must not go on for minutes.
        check(!System.out.checkError()) { "standard output is closed" }
    }
}
