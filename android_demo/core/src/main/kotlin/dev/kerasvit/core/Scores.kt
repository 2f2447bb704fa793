package dev.kerasvit.core

import java.nio.ByteBuffer
import kotlin.math.exp

/**
 * The scores of an output tensor, dequantised in float32 as in Python.
 *
 * @param tensor native byte order, at least `output.bytes` long
 * @param into `output.size` values
 */
fun readScores(tensor: ByteBuffer, output: Output, into: FloatArray) {
    when (output.type) {
        DataType.FLOAT32 -> for (i in into.indices) into[i] = tensor.getFloat(i * 4)
        DataType.UINT8 -> for (i in into.indices) into[i] = (tensor[i].toInt() and 0xFF).toFloat()
        DataType.INT8 -> for (i in into.indices) into[i] = tensor[i].toFloat()
    }
    val quantization = output.quantization ?: return
    for (i in into.indices) into[i] = (into[i] - quantization.zeroPoint) * quantization.scale
}

/**
 * The probabilities of scores, computed in float64 as in `keras_vit.decode_predictions`.
 *
 * A single score gives two: that of "not" the class, and that of the class. A logit z is the pair
 * (0, z), whose softmax is 1 - sigmoid(z) and sigmoid(z).
 *
 * @param output what the scores are
 * @param into `output.answers` values
 * @return whether all scores are finite; otherwise the probabilities mean nothing
 */
fun probabilities(scores: FloatArray, output: Output, into: DoubleArray): Boolean {
    val isLogit = output.kind == OutputKind.LOGITS
    val first = into.size - scores.size
    if (first == 1) into[0] = if (isLogit) 0.0 else maxOf(1.0 - scores[0], 0.0)
    var isFinite = true
    for (i in scores.indices) {
        into[first + i] = scores[i].toDouble()
        isFinite = isFinite && scores[i].isFinite()
    }
    if (isLogit && isFinite) if (output.isExclusive) softmax(into) else sigmoid(into)
    return isFinite
}

private fun sigmoid(values: DoubleArray) {
    for (i in values.indices) values[i] = 1 / (1 + exp(-values[i]))
}

// Without the largest logit subtracted, large logits would overflow.
private fun softmax(values: DoubleArray) {
    var largest = Double.NEGATIVE_INFINITY
    for (value in values) if (value > largest) largest = value
    var sum = 0.0
    for (i in values.indices) {
        values[i] = exp(values[i] - largest)
        sum += values[i]
    }
    for (i in values.indices) values[i] /= sum
}
