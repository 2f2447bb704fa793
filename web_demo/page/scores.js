/** From the output tensor to the most probable classes. */

/**
 * The scores of an output tensor, dequantised in float32 as in Python.
 *
 * @param {Float32Array | Uint8Array} tensor
 * @param {object} output `output` of a description (bundle.js)
 * @returns {Float32Array}
 */
export function readScores(tensor, output) {
  if (output.quantization === null) return Float32Array.from(tensor);
  const { scale, zeroPoint } = output.quantization;
  return Float32Array.from(tensor, (value) => (value - zeroPoint) * Math.fround(scale));
}

/** The probabilities of scores, in float64 as in `keras_vit.decode_predictions`. */
export function probabilities(scores, kind) {
  if (kind === "probabilities") return Array.from(scores);
  const largest = scores.reduce((a, b) => Math.max(a, b), -Infinity); // or exp would overflow
  const exponentials = Array.from(scores, (score) => Math.exp(score - largest));
  const sum = exponentials.reduce((total, value) => total + value, 0);
  return exponentials.map((value) => value / sum);
}

/** Indices of the k most probable classes; of equal ones the first comes first, as in Python. */
export function topK(values, k) {
  const indices = Array.from(values.keys());
  return indices.sort((a, b) => values[b] - values[a] || a - b).slice(0, k);
}
