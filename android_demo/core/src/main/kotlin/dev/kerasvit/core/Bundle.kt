package dev.kerasvit.core

import java.io.FileNotFoundException
import java.io.IOException
import java.io.InputStream
import java.nio.ByteBuffer

/**
 * The files of one bundle: `model.json`, `labels.txt`, `golden.json` and `model.tflite`; perhaps
 * pictures in `samples`. One of features or of a feature map has no `labels.txt`; of features
 * there is perhaps a folder `gallery`.
 */
interface BundleFiles {
    /** The name of the bundle's folder: "digits-int8". */
    val name: String

    /**
     * Opens a file of the bundle.
     *
     * @throws FileNotFoundException if it is absent
     * @throws IOException if it cannot be read
     */
    fun open(file: String): InputStream

    /**
     * All bytes of a file as a direct buffer, mapped into memory where possible.
     *
     * @throws FileNotFoundException if it is absent
     * @throws IOException if it cannot be read
     */
    fun map(file: String): ByteBuffer

    /** The names of the pictures in `samples`, in alphabetical order. */
    fun samples(): List<String> = emptyList()
}

/** Whether a file in a bundle's folder [SAMPLES] is a picture, by its name. */
fun isSample(name: String): Boolean =
    !name.startsWith('.') && name.substringAfterLast('.', "").lowercase() in PICTURES

/** A bundle's folder of pictures to try the model with. */
const val SAMPLES = "samples"

/** What an app needs to know about a bundle; see [readBundle]. */
data class Bundle(
    /** The name of its folder. */
    val name: String,
    val description: Description,
    /**
     * The classes' names, in the order of the scores; of a single score "not cat" and "cat"; of
     * features the classes of the gallery, perhaps none; none of a feature map. In masks they
     * are the classes of pixels.
     */
    val labels: List<String>,
    /** What features are compared with; null for scores, and where there is nothing. */
    val gallery: Gallery? = null,
)

/** The content of `model.json`, as far as an app uses it. */
data class Description(
    /** The model's name: "ViT-B_16". */
    val model: String,
    /** "float32", "float16", "dynamic", "int8" ... */
    val precision: String,
    val input: Input,
    val output: Output,
    /** The oldest TensorFlow Lite that has all operators of the file: "2.9.0". */
    val runtimeFloor: String,
    /** Size of `model.tflite`. */
    val bytes: Long,
    /** Its SHA-256, 64 small hexadecimal digits. */
    val sha256: String,
    /** Number of weights; null if unknown. */
    val parameters: Long?,
    /** Number of operators in the file. */
    val operators: Int,
)

/** The file's input (1, [height], [width], [channels]) and how an image becomes it. */
data class Input(
    val height: Int,
    val width: Int,
    val type: DataType,
    /** Null if the type is [DataType.FLOAT32], or if integers are taken as they are. */
    val quantization: Quantization?,
    /** The fraction of the largest centred box that is cut out; null stretches the whole image. */
    val crop: Double?,
    val interpolation: Interpolation,
    /**
     * For R, G and B: pixels from 0 to 255 become `(pixel - mean) / scale`. Grey pixels have the
     * first of three equal ones.
     */
    val mean: List<Float>,
    val scale: List<Float>,
    val colours: Colours = Colours.RGB,
) {
    val channels: Int get() = colours.channels

    /** Number of values. */
    val size: Int get() = height * width * channels

    /** Size of the tensor. */
    val bytes: Int get() = size * type.bytes
}

/** The file's output (1, [size]); a feature map has the shape of [map], masks that of [mask]. */
data class Output(
    val kind: OutputKind,
    /** The number of classes, of features, or of all values of a feature map or of masks. */
    val size: Int,
    val type: DataType,
    /** Null if the values are the scores. */
    val quantization: Quantization?,
    val activation: Activation = Activation.SOFTMAX,
    /** Of a feature map alone. */
    val map: MapShape? = null,
    /** Of masks alone. */
    val mask: MaskShape? = null,
) {
    /** Size of the tensor. */
    val bytes: Int get() = size * type.bytes

    /** Whether values are features, which classes come of only by comparing pictures. */
    val givesFeatures: Boolean get() = kind == OutputKind.FEATURES

    /** Whether there is a score for each class of the whole picture. */
    val scoresClasses: Boolean get() = !givesFeatures && map == null && mask == null

    /** Whether a picture is of one of the classes; otherwise several can be right, or none. */
    val isExclusive: Boolean get() = activation == Activation.SOFTMAX || size == 1

    /** Number of probabilities: a single score has two, see [probabilities]. */
    val answers: Int get() = maxOf(size, 2)
}

/** A feature map: patches of a picture, each with as many features. */
data class MapShape(val rows: Int, val columns: Int, val features: Int) {
    /** Number of values. */
    val size: Int get() = rows * columns * features
}

/**
 * What masks are made of: for each place of a picture the scores of all classes, or, in a class
 * map, one class.
 */
data class MaskShape(
    val rows: Int,
    val columns: Int,
    val classes: Int,
    val isClassMap: Boolean,
) {
    /** Number of values. */
    val size: Int get() = sides.reduce(Int::times)

    /** The sides of an output for one picture. */
    internal val sides: List<Int>
        get() = listOfNotNull(rows, columns, classes.takeUnless { isClassMap })
}

/** The type of a tensor's values. */
enum class DataType(val jsonName: String, val bytes: Int) {
    FLOAT32("float32", 4),
    UINT8("uint8", 1),
    INT8("int8", 1),
}

/** How images are resized; [BILINEAR] and [BICUBIC] are antialiased. */
enum class Interpolation(val jsonName: String) {
    NEAREST("nearest"),
    BILINEAR("bilinear"),
    BICUBIC("bicubic"),

    /** As MediaPipe: bilinear from corner to corner of the whole image. */
    MEDIAPIPE("mediapipe"),
}

/** The channels of an input; [GREY] is the luma of RGB. */
enum class Colours(val jsonName: String, val channels: Int) {
    RGB("RGB", 3),
    GREY("grey", 1),
}

/** What the values of the output are. */
enum class OutputKind(val jsonName: String) {
    LOGITS("logits"),
    PROBABILITIES("probabilities"),

    /** A vector that is similar for similar pictures. */
    FEATURES("features"),

    /** A vector for each patch of a picture. */
    FEATURE_MAP("feature_map"),

    /** The scores of all classes, logits, for each place of a picture. */
    SCORES("scores"),

    /** The class of each place of a picture. */
    CLASS_MAP("class_map"),
}

/** What makes probabilities of logits. */
enum class Activation(val jsonName: String) {
    /** The classes are compared with each other. */
    SOFTMAX("softmax"),

    /** Each class is judged by itself. */
    SIGMOID("sigmoid"),
}

/** An integer q stands for `(q - zeroPoint) * scale`. */
data class Quantization(val scale: Float, val zeroPoint: Int)

/** The content of `golden.json`: an image, the tensor and the scores that it must give. */
class Golden(
    val image: RgbImage,
    /** The expected input tensor in row-major order: floats, or the values of its integers. */
    val tensor: FloatArray,
    /** The expected scores, features or classes of pixels, dequantised. */
    val scores: FloatArray,
    val tolerances: Tolerances,
)

/** How much the values of a correct runner may differ from the golden ones. */
data class Tolerances(
    val tensor: Double,
    /** Of a class map, the part of the pixels that may have another class. */
    val scores: Double,
    /** For backends that compute in half precision; null if the exporter did not measure it. */
    val scoresHalfPrecision: Double?,
    /** For the scores of masks alone: the part of the pixels that may have another class. */
    val pixels: Double? = null,
)

internal const val CHANNELS = 3

internal const val MODEL = "model.tflite"
internal const val MODEL_JSON = "model.json"
internal const val LABELS = "labels.txt"
internal const val GOLDEN_JSON = "golden.json"
internal val BUNDLE_FILES = setOf(MODEL, MODEL_JSON, LABELS, GOLDEN_JSON)

private val PICTURES = setOf("png", "jpg", "jpeg", "webp")
