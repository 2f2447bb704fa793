package dev.kerasvit.core

import java.nio.Buffer
import java.nio.ByteBuffer
import java.nio.ByteOrder

/** A direct buffer of the machine's byte order, as interpreters take it. */
internal fun directBuffer(bytes: Int): ByteBuffer =
    ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder())

// Through Buffer: ByteBuffer's own `position`, new in Java 9, is missing on old Android.
internal fun Buffer.moveTo(place: Int) {
    position(place)
}
