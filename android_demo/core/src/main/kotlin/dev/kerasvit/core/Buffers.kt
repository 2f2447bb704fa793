package dev.kerasvit.core

import java.nio.Buffer
import java.nio.ByteBuffer
import java.nio.ByteOrder

/** A direct buffer of the machine's byte order, as interpreters take it. */
internal fun directBuffer(bytes: Int): ByteBuffer =
    ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())

/**
 * Sets the position, on every Android: `ByteBuffer`'s own `position` and `rewind` of Java 9 are
 * missing before Android 14.
 */
fun Buffer.moveTo(place: Int) {
    position(place)
}
