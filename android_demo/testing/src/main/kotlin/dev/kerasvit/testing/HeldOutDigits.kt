package dev.kerasvit.testing

import dev.kerasvit.core.RgbImage
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Base64
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.int
import kotlinx.serialization.json.jsonArray
import kotlinx.serialization.json.jsonObject
import kotlinx.serialization.json.jsonPrimitive

/** The digits that `make demo` held out, and what Python makes of them. */
class HeldOutDigits {
    private val fixture = checkNotNull(javaClass.getResourceAsStream("/fixtures/digits.json")).use {
        Json.parseToJsonElement(it.readBytes().decodeToString()).jsonObject
    }

    val images: List<RgbImage> = images(fixture)

    /** What each image shows. */
    val targets: List<Int> = fixture.getValue("targets").jsonArray.map { it.jsonPrimitive.int }

    /** Python's scores of each image, by the name of the app's bundle. */
    val scores: Map<String, List<FloatArray>> =
        fixture.getValue("scores").jsonObject.mapValues { (_, encoded) ->
            floats(encoded.jsonPrimitive.content).asList().chunked(10) { it.toFloatArray() }
        }
}

private fun images(fixture: JsonObject): List<RgbImage> {
    val grey = Base64.getDecoder().decode(fixture.getValue("grey").jsonPrimitive.content)
    return grey.toList().chunked(64).map { pixels ->
        RgbImage(8, 8, ByteArray(192) { pixels[it / 3] })
    }
}

private fun floats(encoded: String): FloatArray {
    val raw = Base64.getDecoder().decode(encoded)
    val bytes = ByteBuffer.wrap(raw).order(ByteOrder.LITTLE_ENDIAN)
    return FloatArray(bytes.capacity() / 4) { bytes.getFloat(it * 4) }
}
