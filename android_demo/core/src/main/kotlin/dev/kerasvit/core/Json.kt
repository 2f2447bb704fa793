package dev.kerasvit.core

import kotlin.math.abs
import kotlin.math.floor
import kotlinx.serialization.SerializationException
import kotlinx.serialization.json.Json
import kotlinx.serialization.json.JsonArray
import kotlinx.serialization.json.JsonElement
import kotlinx.serialization.json.JsonNull
import kotlinx.serialization.json.JsonObject
import kotlinx.serialization.json.JsonPrimitive

/** Reads a JSON object of at most [limit] bytes, whose "format" must be [FORMAT]. */
internal fun readJson(files: BundleFiles, file: String, limit: Int): Fields {
    val text = readText(files, file, limit)
    if (depth(text) > MOST_DEPTH) corrupt(file, "expected at most $MOST_DEPTH levels of JSON.")
    val root = try {
        Json.parseToJsonElement(text)
    } catch (error: SerializationException) {
        corrupt(file, "expected JSON. Received: ${error.message?.lineSequence()?.first()}")
    }
    findInvalid(root)?.let { corrupt(file, "expected JSON. Received: the value ${shown(it)}.") }
    if (root !is JsonObject) corrupt(file, "expected a JSON object. Received: ${shown(root)}.")
    val fields = Fields(file, "", root)
    val format = fields.integer("format", 1, Long.MAX_VALUE)
    if (format > FORMAT) throw BundleException(BundleProblem.NewerFormat(file, format, FORMAT))
    return fields
}

/** The fields of a JSON object; every field that is not as expected is a [BundleException]. */
internal class Fields(
    private val file: String,
    private val path: String,
    private val json: JsonObject,
) {
    val names: Set<String> get() = json.keys

    fun text(name: String): String {
        val value = value(name) as? JsonPrimitive
        return value?.takeIf { it.isString }?.content ?: fail(name, "text")
    }

    fun number(name: String): Double = number(value(name)) ?: fail(name, "a finite number")

    /** An integer, which may be written as 5.0 as in Python. */
    fun integer(name: String, least: Long, most: Long): Long =
        integer(value(name))?.takeIf { it in least..most }
            ?: fail(name, "an integer from $least to $most")

    fun integers(name: String): List<Long> =
        list(name).map { integer(it) ?: fail(name, "integers") }

    /** A number for each channel, or one for all. */
    fun channels(name: String): List<Double> {
        if (value(name) !is JsonArray) return List(CHANNELS) { number(name) }
        val values = list(name).map { number(it) ?: fail(name, "finite numbers") }
        return if (values.size == CHANNELS) values else fail(name, "a number or $CHANNELS")
    }

    fun texts(name: String): List<String> = list(name).map {
        (it as? JsonPrimitive)?.takeIf(JsonPrimitive::isString)?.content ?: fail(name, "texts")
    }

    fun children(name: String): List<Fields> = list(name).mapIndexed { i, it ->
        Fields(file, "$path$name[$i].", it as? JsonObject ?: fail(name, "objects"))
    }

    fun child(name: String): Fields {
        val value = value(name) as? JsonObject ?: fail(name, "an object")
        return Fields(file, "$path$name.", value)
    }

    fun <T> choice(name: String, choices: Array<T>, nameOf: (T) -> String): T {
        val text = text(name)
        return choices.find { nameOf(it) == text }
            ?: fail(name, choices.joinToString(" or ", transform = nameOf))
    }

    /** Null if the field is null; otherwise what [read] makes of it. */
    fun <T> optional(name: String, read: Fields.(String) -> T): T? =
        if (value(name) is JsonNull) null else read(name)

    fun fail(name: String, expected: String, received: String = shown(json[name])): Nothing =
        corrupt(file, "$path$name: expected $expected. Received: $received.")

    private fun value(name: String): JsonElement =
        json[name] ?: corrupt(file, "$path$name is missing.")

    private fun list(name: String) = value(name) as? JsonArray ?: fail(name, "a list")
}

private fun number(value: JsonElement): Double? {
    if (value !is JsonPrimitive || value.isString || !numeral.matches(value.content)) return null
    return value.content.toDouble().takeIf { it.isFinite() }
}

private fun integer(value: JsonElement): Long? =
    number(value)?.takeIf { it == floor(it) && abs(it) <= MOST_EXACT }?.toLong()

/** How deep objects and lists lie in each other; counted before a parser descends into them. */
private fun depth(text: String): Int {
    var depth = 0
    var deepest = 0
    var inString = false
    var at = 0
    while (at < text.length) {
        when (text[at]) {
            '\\' -> at++
            '"' -> inString = !inString
            '{', '[' -> if (!inString) deepest = maxOf(deepest, ++depth)
            '}', ']' -> if (!inString) depth--
        }
        at++
    }
    return deepest
}

/** A value without quotes that is not JSON, such as NaN, which the parser lets pass. */
private fun findInvalid(value: JsonElement): JsonElement? = when (value) {
    is JsonObject -> value.values.firstNotNullOfOrNull(::findInvalid)
    is JsonArray -> value.firstNotNullOfOrNull(::findInvalid)
    is JsonPrimitive -> value.takeUnless {
        it.isString || it.content in literals || numeral.matches(it.content)
    }
}

private fun shown(value: JsonElement?): String =
    value.toString().let { if (it.length > MOST_SHOWN) it.take(MOST_SHOWN) + "..." else it }

private val numeral = Regex("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?")
private val literals = setOf("null", "true", "false")

internal const val FORMAT = 1L
private const val MOST_DEPTH = 32
private const val MOST_EXACT = 9e15
private const val MOST_SHOWN = 80
