package dev.kerasvit.core

import java.security.MessageDigest
import java.util.Base64
import kotlin.test.assertContentEquals
import kotlin.test.assertEquals
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** A file that `tools/make_fixtures.py` wrote. */
fun fixture(name: String): JsonElement {
    val stream = MemoryFiles::class.java.getResourceAsStream("/fixtures/$name")
    checkNotNull(stream) { "fixtures/$name is not on the class path" }
    return Json.parseToJsonElement(stream.use { it.readBytes() }.decodeToString())
}

/** The cases of a fixture that is a list. */
fun cases(name: String): List<JsonObject> = fixture(name).jsonArray.map { it.jsonObject }

fun JsonObject.text(name: String): String = getValue(name).jsonPrimitive.content
fun JsonObject.int(name: String): Int = text(name).toInt()
fun JsonObject.double(name: String): Double = text(name).toDouble()
fun JsonObject.doubleOrNull(name: String): Double? =
    getValue(name).takeUnless { it is JsonNull }?.jsonPrimitive?.content?.toDouble()

fun JsonObject.doubles(name: String): List<Double> {
    val value = getValue(name)
    val values = value as? JsonArray ?: listOf(value)
    return values.map { it.jsonPrimitive.content.toDouble() }
}

fun JsonObject.decoded(name: String): ByteArray = Base64.getDecoder().decode(text(name))

/** Compares bytes with those of a fixture, of which there may only be a hash. */
fun assertBytes(expected: JsonElement, actual: ByteArray, what: String) {
    val stored = expected.jsonObject
    if ("base64" in stored) {
        assertContentEquals(stored.decoded("base64"), actual, what)
    } else {
        val digest = MessageDigest.getInstance("SHA-256").digest(actual)
        assertEquals(stored.text("sha256"), digest.joinToString("") { "%02x".format(it) }, what)
    }
}

/** The same bytes as `noise` of `tools/make_fixtures.py`. */
fun noise(count: Int, seed: Int, extreme: Boolean = false): ByteArray {
    var state = seed
    return ByteArray(count) {
        state = state * 1664525 + 1013904223
        val value = state ushr 24
        (if (!extreme) value else if (value < 128) 0 else 255).toByte()
    }
}

fun noiseImage(width: Int, height: Int, extreme: Boolean = false) =
    RgbImage(width, height, noise(width * height * 3, 1000 * width + height, extreme))

fun noiseImage(case: JsonObject): RgbImage = case.getValue("image").jsonObject.run {
    noiseImage(int("width"), int("height"), text("extreme").toBoolean())
}

/** The pixels of an image whose array may be longer. */
fun RgbImage.pixels(): ByteArray = bytes.copyOf(width * height * 3)
