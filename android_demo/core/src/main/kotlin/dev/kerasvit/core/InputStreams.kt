package dev.kerasvit.core

import java.io.ByteArrayOutputStream
import java.io.InputStream

/** The whole stream, or its first [limit] bytes if it is longer. */
internal fun InputStream.readAtMost(limit: Int): ByteArray {
    val read = ByteArrayOutputStream()
    val part = ByteArray(1 shl 16)
    while (read.size() < limit) {
        val count = read(part, 0, minOf(part.size, limit - read.size()))
        if (count < 0) break
        read.write(part, 0, count)
    }
    return read.toByteArray()
}
