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

/** What a model of these classes answers: the classes, or of one "not cat" and "cat". */
export function answersOf(labels) {
  return labels.length === 1 ? [`not ${labels[0]}`, labels[0]] : labels;
}

/**
 * The probabilities of a model's answers, in float64 as in `keras_vit.decode_predictions`.
 *
 * A logit z of a single class is the pair (0, z), whose softmax is 1 - sigmoid(z) and sigmoid(z).
 *
 * @param {Float32Array} scores
 * @param {object} output `output` of a description (bundle.js)
 */
export function probabilities(scores, { kind, isExclusive }) {
  const isLogit = kind === "logits";
  const all = scores.length === 1 ? [isLogit ? 0 : Math.max(1 - scores[0], 0), scores[0]] : Array.from(scores);
  if (!isLogit) return all;
  if (!isExclusive) return all.map((score) => 1 / (1 + Math.exp(-score)));
  const largest = all.reduce((a, b) => Math.max(a, b), -Infinity); // or exp would overflow
  const exponentials = all.map((score) => Math.exp(score - largest));
  const sum = exponentials.reduce((total, value) => total + value, 0);
  return exponentials.map((value) => value / sum);
}

/** "12.3%". Only 0 is "0.0%": of labels that do not exclude each other, all may be tiny. */
export function percentText(probability) {
  const text = (100 * probability).toFixed(1);
  return probability > 0 && text === "0.0" ? "<0.1%" : `${text}%`;
}

/** Indices of the k most probable classes; of equal ones the first comes first, as in Python. */
export function topK(values, k) {
  const least = Float64Array.from(values).sort().at(-k) ?? -Infinity;
  const indices = Array.from(values.keys()).filter((i) => values[i] >= least); // few, of many
  return indices.sort((a, b) => values[b] - values[a] || a - b).slice(0, k);
}
