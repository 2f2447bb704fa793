package dev.kerasvit.core

import java.io.FileNotFoundException
import java.io.IOException
import java.nio.ByteBuffer
import java.nio.charset.CharacterCodingException
import java.security.MessageDigest

/**
 * Reads and checks a bundle: all of `model.json` that an app needs, `labels.txt` or the gallery,
 * and the size of `model.tflite`. That file's SHA-256 takes longer: [readModel] computes it.
 *
 * @throws BundleException with the reason
 */
fun readBundle(files: BundleFiles): Bundle {
    val description = readDescription(readJson(files, MODEL_JSON, MOST_TEXT))
    mapModel(files, description)
    val output = description.output
    if (output.scoresClasses) {
        return Bundle(files.name, description, answers(readLabels(files, output.size)))
    }
    if (output.mask != null) {
        return Bundle(files.name, description, readLabels(files, output.mask.classes))
    }
    val gallery = if (output.givesFeatures) readGallery(files, description) else null
    return Bundle(files.name, description, gallery?.classes.orEmpty(), gallery)
}

/**
 * `model.tflite` as a direct buffer, if it is the file that `model.json` describes.
 *
 * @throws BundleException with the reason
 */
fun readModel(files: BundleFiles, description: Description): ByteBuffer {
    val model = mapModel(files, description)
    val digest = MessageDigest.getInstance("SHA-256").apply { update(model.duplicate()) }.digest()
    val received = digest.joinToString("") { "%02x".format(it) }
    if (received != description.sha256) {
        throw BundleException(BundleProblem.WrongHash(description.sha256, received))
    }
    return model
}

/**
 * `model.tflite` as a direct buffer, if it has the size that `model.json` states.
 *
 * @throws BundleException with the reason
 */
fun mapModel(files: BundleFiles, description: Description): ByteBuffer {
    val model = reading(MODEL) { files.map(MODEL) }
    val size = model.capacity()
    if (size.toLong() != description.bytes) {
        corrupt(MODEL, "expected ${description.bytes} bytes. Received: $size.")
    }
    return model
}

/** What a model of these classes answers: the classes, or of one "not cat" and "cat". */
private fun answers(labels: List<String>): List<String> =
    labels.singleOrNull()?.let { listOf("not $it", it) } ?: labels

private fun readDescription(json: Fields): Description {
    val output = readOutput(json.child("output"))
    return Description(
        model = json.text("model"),
        precision = json.text("precision"),
        input = readInput(json.child("input")),
        output = output,
        runtimeFloor = json.text("runtime_floor"),
        bytes = json.integer("bytes", 1, Int.MAX_VALUE.toLong()),
        sha256 = json.text("sha256").also {
            if (!sha256.matches(it)) json.fail("sha256", "64 small hexadecimal digits")
        },
        parameters = json.optional("parameters") { integer(it, 0, MOST_PARAMETERS) },
        operators = json.child("operators").run {
            names.sumOf { integer(it, 1, MOST_OPERATORS) }.toInt()
        },
    )
}

private fun readInput(json: Fields): Input {
    val height = json.integer("height", 1, MOST_SIDE).toInt()
    val width = json.integer("width", 1, MOST_SIDE).toInt()
    val colours = json.colours()
    json.checkShape(listOf(1, height, width, colours.channels))
    val type = json.choice("dtype", DataType.values(), DataType::jsonName)
    val interpolation =
        json.choice("interpolation", Interpolation.values(), Interpolation::jsonName)
    val crop = json.optional("crop", Fields::fraction)
    if (interpolation == Interpolation.MEDIAPIPE && crop != null) {
        json.fail("crop", "null with interpolation mediapipe, which resizes the whole image")
    }
    return Input(
        height = height,
        width = width,
        type = type,
        quantization = readQuantization(json, type),
        crop = crop,
        interpolation = interpolation,
        mean = json.floats("mean", "finite numbers in float32") { true },
        scale = json.floats("scale", "positive numbers") { it > 0 },
        colours = colours,
    )
}

private fun Fields.colours(): Colours =
    if ("channels" in names) choice("channels", Colours.values(), Colours::jsonName) else Colours.RGB

private fun readOutput(json: Fields): Output {
    val kind = json.choice("kind", OutputKind.values(), OutputKind::jsonName)
    val type = json.choice("dtype", DataType.values(), DataType::jsonName)
    val map = if (kind == OutputKind.FEATURE_MAP) json.map() else null
    val mask = when (kind) {
        OutputKind.SCORES -> json.scoresOfMasks()
        OutputKind.CLASS_MAP -> json.classMap(type)
        else -> null
    }
    return Output(
        kind = kind,
        size = map?.size ?: mask?.size
            ?: if (kind == OutputKind.FEATURES) json.features() else json.classes(),
        type = type,
        quantization = readQuantization(json, type),
        activation = json.activation(),
        map = map,
        mask = mask,
    )
}

private fun Fields.classes(): Int {
    val classes = integer("classes", 1, MOST_CLASSES).toInt()
    checkShape(listOf(1, classes))
    return classes
}

private fun Fields.features(): Int {
    val shape = integers("shape")
    if (shape.size != 2 || shape[0] != 1L || shape[1] !in 1..MOST_CLASSES) {
        fail("shape", "[1, features]")
    }
    return shape[1].toInt()
}

private fun Fields.map(): MapShape {
    val (rows, columns, features) = sides("rows", "columns", "features")
    return MapShape(rows, columns, features)
}

private fun Fields.scoresOfMasks(): MaskShape {
    val (rows, columns, classes) = sides("rows", "columns", "classes")
    if (integer("classes", 1, MOST_CLASSES).toInt() != classes) {
        fail("classes", "$classes, the last side of the shape")
    }
    return MaskShape(rows, columns, classes, isClassMap = false)
}

private fun Fields.classMap(type: DataType): MaskShape {
    if (type != DataType.UINT8) fail("dtype", "uint8 for a class map")
    if ("quantization" in names) fail("quantization", "none for a class map")
    val (rows, columns) = sides("rows", "columns")
    return MaskShape(rows, columns, integer("classes", 1, 256).toInt(), isClassMap = true)
}

/** The sides of one picture's values, of which these are the names. */
private fun Fields.sides(vararg names: String): List<Int> {
    val shape = integers("shape")
    if (shape.size != names.size + 1 || shape[0] != 1L) {
        fail("shape", "[1, ${names.joinToString()}]")
    }
    val sides = shape.drop(1)
    val features = sides.getOrElse(2) { 1 }
    // One after the other, so that no product overflows.
    val fits = sides.all { it in 1..MOST_VALUES } && features <= MOST_CLASSES &&
        sides[0] * sides[1] <= MOST_VALUES && sides[0] * sides[1] * features <= MOST_VALUES
    if (!fits) fail("shape", "at most $MOST_CLASSES ${names.last()} and $MOST_VALUES values")
    return sides.map { it.toInt() }
}

/** Older bundles state none; it is unknown where a model has layers that are not keras_vit's. */
private fun Fields.activation(): Activation {
    if ("activation" !in names) return Activation.SOFTMAX
    val known = optional("activation") { choice(it, Activation.values(), Activation::jsonName) }
    return known ?: Activation.SOFTMAX
}

private fun readQuantization(json: Fields, type: DataType): Quantization? {
    if ("quantization" !in json.names) return null
    if (type == DataType.FLOAT32) json.fail("quantization", "none for float32")
    val quantization = json.child("quantization")
    val scale = quantization.number("scale").toFloat()
    if (!(scale > 0 && scale.isFinite())) quantization.fail("scale", "a positive number")
    val zeroPoints = if (type == DataType.UINT8) 0L..255L else -128L..127L
    val zeroPoint = quantization.integer("zero_point", zeroPoints.first, zeroPoints.last)
    return Quantization(scale, zeroPoint.toInt())
}

private fun Fields.checkShape(expected: List<Int>) {
    if (integers("shape") != expected.map { it.toLong() }) fail("shape", "$expected")
}

private fun Fields.fraction(name: String): Double {
    val fraction = number(name)
    if (fraction <= 0 || fraction > 1) fail(name, "null or a number in (0, 1]")
    return fraction
}

/** Numbers for R, G and B, in float32 as in Python. */
private fun Fields.floats(
    name: String,
    expected: String,
    isValid: (Float) -> Boolean,
): List<Float> {
    val values = channels(name).map { it.toFloat() }
    if (!values.all { it.isFinite() && isValid(it) }) fail(name, expected)
    return values
}

/** The lines of `labels.txt`, divided as Python divides them. */
private fun readLabels(files: BundleFiles, classes: Int): List<String> {
    val text = readText(files, LABELS, MOST_TEXT)
        .replace("\r\n", "\n").replace('\r', '\n').removeSuffix("\n")
    val labels = if (text.isEmpty()) emptyList() else text.split('\n')
    if (labels.size != classes) {
        corrupt(LABELS, "expected $classes lines, one for each class. Received: ${labels.size}.")
    }
    return labels
}

/** A file's text in UTF-8, read no further than [limit] bytes. */
internal fun readText(files: BundleFiles, file: String, limit: Int): String {
    val bytes = reading(file) { files.open(file).use { it.readAtMost(limit + 1) } }
    if (bytes.size > limit) corrupt(file, "expected at most $limit bytes. Received: more.")
    return try {
        Charsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString()
    } catch (error: CharacterCodingException) {
        corrupt(file, "expected text in UTF-8. Received: other bytes.")
    }
}

internal inline fun <T> reading(file: String, read: () -> T): T = try {
    read()
} catch (error: FileNotFoundException) {
    throw BundleException(BundleProblem.Missing(file))
} catch (error: IOException) {
    corrupt(file, "cannot be read: ${error.message ?: error.javaClass.simpleName}.")
}

internal fun corrupt(file: String, detail: String): Nothing =
    throw BundleException(BundleProblem.Corrupt(file, detail))

private val sha256 = Regex("[0-9a-f]{64}")

// Far above every real model; a damaged file must not exhaust the memory.
private const val MOST_TEXT = 4 shl 20
internal const val MOST_SIDE = 4096L
private const val MOST_CLASSES = 1_000_000L
private const val MOST_VALUES = 1L shl 24
private const val MOST_OPERATORS = 1_000_000L
private const val MOST_PARAMETERS = 1L shl 40
