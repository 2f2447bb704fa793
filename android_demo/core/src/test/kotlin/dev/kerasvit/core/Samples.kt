package dev.kerasvit.core

import java.io.FileNotFoundException
import java.io.InputStream
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.security.MessageDigest
import java.util.Base64

fun input(
    width: Int = 4,
    height: Int = 3,
    type: DataType = DataType.FLOAT32,
    quantization: Quantization? = null,
    crop: Double? = null,
    interpolation: Interpolation = Interpolation.BILINEAR,
    mean: Float = 127.5f,
    scale: Float = 127.5f,
) = Input(
    height = height,
    width = width,
    type = type,
    quantization = quantization,
    crop = crop,
    interpolation = interpolation,
    mean = List(3) { mean },
    scale = List(3) { scale },
)

/** A bundle in memory; [texts] and [model] are its files. */
class MemoryFiles(
    val texts: Map<String, ByteArray>,
    val model: ByteArray? = sampleModel,
) : BundleFiles {
    override val name = "sample"

    override fun open(file: String): InputStream =
        texts[file]?.inputStream() ?: throw FileNotFoundException(file)

    override fun map(file: String): ByteBuffer {
        val bytes = (if (file == MODEL) model else texts[file]) ?: throw FileNotFoundException(file)
        return ByteBuffer.allocateDirect(bytes.size).apply {
            for (i in bytes.indices) put(i, bytes[i])
        }
    }

    fun with(file: String, text: String?) = with(file, text?.toByteArray())

    fun with(file: String, bytes: ByteArray?) =
        MemoryFiles(if (bytes == null) texts - file else texts + (file to bytes), model)

    /** With one place of a text changed; the place must exist. */
    fun edit(file: String, old: String, new: String): MemoryFiles {
        val text = texts.getValue(file).decodeToString()
        check(text.indexOf(old) >= 0 && text.indexOf(old) == text.lastIndexOf(old)) {
            "$old is not there once: $text"
        }
        return with(file, text.replace(old, new))
    }
}

/** The bytes are no model: only engines that are fakes take it. */
val sampleModel: ByteArray = noise(100, 1)

/** A correct bundle of 4 x 3 pixels and three classes, with the golden values of [fakeScores]. */
fun sampleFiles(): MemoryFiles = MemoryFiles(
    mapOf(
        "model.json" to sampleDescription.toByteArray(),
        "labels.txt" to "cat\ndog\nowl\n".toByteArray(),
        "golden.json" to sampleGolden().toByteArray(),
    ),
)

/** The same of a binary classifier, whose only score is the first of [fakeScores], 3.5. */
fun oneScoreFiles(): MemoryFiles {
    val golden = sampleFiles().texts.getValue("golden.json").decodeToString()
    val score = Regex("\\[3], \"base64\": \"[^\"]*\"")
    return sampleFiles()
        .edit("model.json", "\"shape\": [1, 3], ", "\"shape\": [1, 1], ")
        .edit("model.json", "\"classes\": 3", "\"classes\": 1")
        .with("labels.txt", "cat\n")
        .with("golden.json", golden.replace(score, "[1], \"base64\": \"AABgQA==\""))
}

/** The same of features, the three [fakeScores]. */
fun featuresFiles(): MemoryFiles = sampleFiles().with("labels.txt", null as String?)
    .edit("model.json", "\"kind\": \"logits\", \"classes\": 3", "\"kind\": \"features\"")

/** The same of a feature map, 3 x 1 patches of one feature: the three [fakeScores]. */
fun mapFiles(): MemoryFiles = featuresFiles()
    .edit("model.json", "\"kind\": \"features\"", "\"kind\": \"feature_map\"")
    .edit("model.json", "\"shape\": [1, 3], ", "\"shape\": [1, 3, 1, 1], ")
    .edit("golden.json", "\"shape\": [3], ", "\"shape\": [3, 1, 1], ")

/** The same of masks, the three [fakeScores] of one place. */
fun segmenterFiles(): MemoryFiles = sampleFiles()
    .edit("model.json", "\"kind\": \"logits\"", "\"kind\": \"scores\"")
    .edit("model.json", "\"shape\": [1, 3], ", "\"shape\": [1, 1, 1, 3], ")
    .edit("golden.json", "\"shape\": [3], ", "\"shape\": [1, 1, 3], ")
    .edit("golden.json", "\"scores\": 0.75", "\"pixels\": 0.125, \"scores\": 0.75")

/** The same of a class map of 3 x 1 places and 250 classes; the bytes of [fakeScores] are three. */
fun classMapFiles(): MemoryFiles {
    val scores = Regex("\"scores\": \\{.*}")
    val golden = sampleFiles().texts.getValue("golden.json").decodeToString()
    return sampleFiles()
        .edit("model.json", "\"shape\": [1, 3], ", "\"shape\": [1, 3, 1], ")
        .edit("model.json", "\"dtype\": \"int8\"", "\"dtype\": \"uint8\"")
        .edit("model.json", "\"quantization\": {\"scale\": 0.5, \"zero_point\": -3}, ", "")
        .edit("model.json", "\"kind\": \"logits\"", "\"kind\": \"class_map\"")
        .edit("model.json", "\"classes\": 3", "\"classes\": 250")
        .with("labels.txt", List(250) { "class $it" }.joinToString("\n"))
        .with(
            "golden.json",
            golden.replace(
                scores,
                "\"scores\": {\"dtype\": \"uint8\", \"shape\": [3, 1], \"base64\": \"BBT5\"}",
            ),
        )
        .edit("golden.json", "\"scores\": 0.75", "\"scores\": 0.5")
}

/** A gallery of three features for [featuresFiles]; the class of each vector, null for none. */
fun MemoryFiles.withGallery(
    classes: List<String>,
    vararg pictures: Pair<Int?, List<Float>>,
    vote: String = "{\"of\": \"pictures\", \"neighbours\": 2, \"temperature\": 0.5}",
): MemoryFiles {
    val vectors = ByteBuffer.allocate(pictures.size * 12).order(ByteOrder.LITTLE_ENDIAN)
    for ((_, vector) in pictures) for (value in vector) vectors.putFloat(value)
    val entries = pictures.withIndex().joinToString { (i, picture) ->
        "{\"name\": \"$i.png\", \"target\": ${picture.first}}"
    }
    val names = classes.joinToString { "\"$it\"" }
    val json = "{\"format\": 1, \"sha256\": \"${sampleModel.sha256()}\", \"features\": 3, " +
        "\"classes\": [$names], \"pictures\": [$entries], \"vote\": $vote}"
    return with("gallery/gallery.json", json).with("gallery/vectors.bin", vectors.array())
}

private val sampleDescription = """
    {
      "format": 1,
      "model": "ViT-Sample",
      "parameters": 12,
      "precision": "float32",
      "input": {
        "name": "images", "shape": [1, 3, 4, 3], "dtype": "float32", "channels": "RGB",
        "height": 3, "width": 4, "crop": null, "interpolation": "bilinear",
        "mean": 127.5, "scale": [127.5, 100, 50.0]
      },
      "output": {
        "name": "scores", "shape": [1, 3], "dtype": "int8",
        "quantization": {"scale": 0.5, "zero_point": -3}, "kind": "logits", "classes": 3
      },
      "runtime_floor": "2.9.0",
      "bytes": 100,
      "sha256": "${sampleModel.sha256()}",
      "operators": {"ADD": 2, "MUL": 3},
      "a_field_of_later": {"any": [null, true, -1.5e-3, "text"]}
    }
""".trimIndent()

private fun sampleGolden(): String {
    val image = noiseImage(5, 4)
    val input = input().copy(scale = listOf(127.5f, 100f, 50f))
    val tensor = Preprocessor(input).run(image)
    val scores = ByteBuffer.allocate(12).order(ByteOrder.LITTLE_ENDIAN)
    fakeScores.forEachIndexed { i, score -> scores.putFloat(i * 4, (score + 3) * 0.5f) }
    val (pixels, floats) = image.bytes.base64() to tensor.toArray().base64()
    return """
        {
          "format": 1,
          "image": {"dtype": "uint8", "shape": [4, 5, 3], "base64": "$pixels"},
          "tensor": {"dtype": "float32", "shape": [3, 4, 3], "base64": "$floats"},
          "scores": {"dtype": "float32", "shape": [3], "base64": "${scores.array().base64()}"},
          "tolerance": {"tensor": 1e-6, "scores": 0.75, "scores_half_precision": 1.5}
        }
    """.trimIndent()
}

private fun ByteBuffer.toArray() = ByteArray(capacity()) { get(it) }
private fun ByteArray.base64() = Base64.getEncoder().encodeToString(this)
private fun ByteArray.sha256() =
    MessageDigest.getInstance("SHA-256").digest(this).joinToString("") { "%02x".format(it) }
