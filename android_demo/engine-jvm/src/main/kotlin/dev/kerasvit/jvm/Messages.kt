package dev.kerasvit.jvm

import com.sun.jna.Library
import com.sun.jna.Native
import java.io.File

/** What native code prints to standard error while a block runs. */
internal class Messages {
    /** The runtime's lines that begin with "ERROR: ", without it. */
    var errors = emptyList<String>()
        private set

    fun <T> during(block: () -> T): T = synchronized(Messages) {
        val file = File.createTempFile("messages", null)
        val usual = libc.dup(STANDARD_ERROR)
        val descriptor = libc.open(file.path, WRITE_ONLY)
        libc.dup2(descriptor, STANDARD_ERROR)
        libc.close(descriptor)
        try {
            block()
        } finally {
            libc.dup2(usual, STANDARD_ERROR)
            libc.close(usual)
            errors = file.readLines().filter { it.startsWith(PREFIX) }
                .map { it.removePrefix(PREFIX).trim() }
            file.delete()
        }
    }

    private companion object {
        const val PREFIX = "ERROR: "
    }
}

private interface LibC : Library {
    fun dup(descriptor: Int): Int
    fun dup2(from: Int, to: Int): Int
    fun open(path: String, flags: Int): Int
    fun close(descriptor: Int): Int
}

private val libc = Native.load("c", LibC::class.java)

private const val STANDARD_ERROR = 2
private const val WRITE_ONLY = 1
