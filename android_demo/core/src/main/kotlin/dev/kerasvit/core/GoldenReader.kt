package dev.kerasvit.core

import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.Base64

/**
 * Reads and checks `golden.json`.
 *
 * @throws BundleException with the reason
 */
fun readGolden(files: BundleFiles, bundle: Bundle): Golden {
    val (input, output) = bundle.description.run { input to output }
    val json = readJson(files, GOLDEN_JSON, MOST_GOLDEN)
    val tensorShape = listOf(input.height, input.width, input.channels)
    return Golden(
        image = readImage(json.child("image")),
        tensor = readTensor(json.child("tensor"), tensorShape, input),
        scores = json.child("scores").run {
            if (output.mask?.isClassMap == true) classMap(output.mask) else floats(output.shape)
        },
        tolerances = json.child("tolerance").run {
            val half = "scores_half_precision"
            Tolerances(
                tensor = tolerance("tensor"),
                scores = tolerance("scores"),
                scoresHalfPrecision = if (half in names) tolerance(half) else null,
                pixels = if (output.kind == OutputKind.SCORES) pixels() else null,
            )
        },
    )
}

private val Output.shape: List<Int>
    get() = map?.run { listOf(rows, columns, features) }
        ?: mask?.sides
        ?: listOf(size)

private fun Fields.classMap(shape: MaskShape): FloatArray {
    val classes = bytes("uint8", shape.sides).map { it.toInt() and 0xFF }
    val unknown = classes.find { it >= shape.classes }
    if (unknown != null) fail("base64", "classes below ${shape.classes}", "$unknown")
    return FloatArray(classes.size) { classes[it].toFloat() }
}

private fun readImage(json: Fields): RgbImage {
    val shape = json.integers("shape")
    if (shape.size != 3 || shape[2] != 3L || shape.any { it !in 1..MOST_SIDE }) {
        json.fail("shape", "[height, width, 3] of 1 to $MOST_SIDE pixels")
    }
    val (height, width) = shape.map { it.toInt() }
    return RgbImage(width, height, json.bytes("uint8", listOf(height, width, CHANNELS)))
}

/** The tensor as the file takes it: Python stores what is then quantised. */
private fun readTensor(json: Fields, shape: List<Int>, input: Input): FloatArray {
    if (input.type == DataType.FLOAT32) return json.floats(shape)
    val isInteger = json.text("dtype") == DataType.UINT8.jsonName
    val values = if (isInteger) {
        json.bytes("uint8", shape).let { bytes ->
            FloatArray(bytes.size) { (bytes[it].toInt() and 0xFF).toFloat() }
        }
    } else {
        json.floats(shape)
    }
    return FloatArray(values.size) { quantize(values[it], input).toFloat() }
}

private fun Fields.floats(shape: List<Int>): FloatArray {
    val bytes = ByteBuffer.wrap(bytes("float32", shape)).order(ByteOrder.LITTLE_ENDIAN)
    val floats = FloatArray(bytes.capacity() / 4) { bytes.getFloat(it * 4) }
    if (!floats.all { it.isFinite() }) fail("base64", "finite numbers", "NaN or infinity")
    return floats
}

/** The bytes of an array of this type and shape. */
private fun Fields.bytes(type: String, shape: List<Int>): ByteArray {
    if (text("dtype") != type) fail("dtype", type)
    if (integers("shape") != shape.map { it.toLong() }) fail("shape", "$shape")
    val expected = shape.reduce(Int::times) * if (type == "float32") 4 else 1
    val encoded = text("base64")
    val bytes = try {
        if (encoded.length % 4 == 0) Base64.getDecoder().decode(encoded) else null
    } catch (error: IllegalArgumentException) {
        null
    }
    bytes ?: fail("base64", "base64", "other text")
    if (bytes.size != expected) fail("base64", "$expected bytes", "${bytes.size}")
    return bytes
}

private fun Fields.tolerance(name: String): Double =
    number(name).also { if (it <= 0) fail(name, "a positive number") }

private fun Fields.pixels(): Double {
    val name = "pixels"
    if (name !in names) fail(name, "the part of the pixels that may differ: export it again")
    return number(name).also { if (it < 0) fail(name, "a number, at least 0") }
}

// The tensor of 1000 x 1000 pixels in base64 has 16 MB, a map of 37 x 37 x 768 features 5.6 MB.
internal const val MOST_GOLDEN = 32 shl 20
