/** From pixels to scores or features, timed, and to what a card says of them. */

import { maskOf, sharesOf, strangeClass } from "./masks.js";
import { patchColours } from "./patch_colours.js";
import { cropBox, preprocess } from "./preprocess.js";
import { probabilities, readScores, topK } from "./scores.js";
import { lookUp } from "./similar.js";
import { UserError } from "./errors.js";

/**
 * @param {{width, height, data}} image R, G and B, row by row
 * @param {object} bundle the result of `fetchBundle`
 * @param {object} engine the result of `compile`
 * @returns {Promise<object>} tensor, scores (or features), milliseconds, and what part of the image
 *     the model has seen
 * @throws {UserError}
 */
export async function classify(image, bundle, engine) {
  const { input, output } = bundle.description;
  const begun = performance.now();
  const tensor = preprocess(image, input);
  const prepared = performance.now();
  const scores = readScores(await engine.run(tensor), output);
  const computed = performance.now();
  if (scores.length !== output.size) {
    throw new UserError(`The model gives ${scores.length} values, not ${output.size}; export it again.`);
  }
  if (!scores.every(Number.isFinite)) {
    throw new UserError("The model gives scores that are no finite numbers.");
  }
  const strange = strangeClass(scores, output);
  if (strange !== undefined) {
    throw new UserError(`The model gives class ${strange}, and has ${output.classes}; export it again.`);
  }
  return {
    tensor,
    scores,
    preprocessingMs: prepared - begun,
    inferenceMs: computed - prepared,
    width: image.width,
    height: image.height,
    seen: cropBox(image.width, image.height, input),
  };
}

/**
 * What a card says of scores: the most probable classes. Of features also the most similar pictures.
 * Of a feature map the colours of its patches, of a segmenter the mask; they take the place of many
 * scores.
 *
 * @param {Float32Array} scores
 * @param {object} bundle the result of `fetchBundle`
 * @param {object} collection what features are compared with (added.js)
 * @returns {{predictions: {label, probability}[], similar?: object[], patches?: object,
 *     mask?: object}}
 */
export function tell(scores, { description, labels }, collection, k = 5) {
  const { input, output } = description;
  if (output.isMask) return classesOf(scores, output, input, labels);
  if (output.kind === "features") return lookUp(scores, collection, k);
  if (output.kind === "feature_map") return coloursOf(scores, output);
  const all = probabilities(scores, output);
  return { predictions: topK(all, k).map((i) => ({ label: labels[i], probability: all[i] })) };
}

function coloursOf(map, { rows, columns, features }) {
  const patches = { rows, columns, ...patchColours(map, features) };
  return { predictions: [], scores: null, patches };
}

function classesOf(scores, output, input, labels) {
  const mask = maskOf(scores, output, input);
  return { predictions: [], scores: null, mask: { ...mask, labels, shares: sharesOf(mask, labels) } };
}

/** The median time of a run in milliseconds, of up to 20 runs in a fifth of a second. */
export async function medianTime(tensor, engine) {
  const times = [];
  const begun = performance.now();
  do {
    const start = performance.now();
    await engine.run(tensor);
    times.push(performance.now() - start);
  } while (times.length < 20 && performance.now() - begun < 200);
  return { milliseconds: median(times), runs: times.length };
}

/** Of an even number of values, the mean of the two in the middle. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
