/** The golden check: does this browser compute what the exporter's computer computed? */

import { fromBase64 } from "./base64.js";
import { UserError } from "./errors.js";
import { bestOf, strangeClass } from "./masks.js";
import { quantize } from "./preprocess.js";
import { probabilities } from "./scores.js";

const COMPARED = new Map([
  ["features", "features"],
  ["feature_map", "features"],
  ["class_map", "classes"],
]);

/**
 * The content of golden.json: a picture, and the tensor and the scores that it must give.
 *
 * @param {object} json
 * @param {object} description of the same bundle (bundle.js)
 */
export function readGolden(json, description) {
  const { input, output } = description;
  const [height, width] = json?.image?.shape ?? [];
  const size = [input.height, input.width, input.channels];
  return {
    image: { width, height, data: decoded(json, "image", [height, width, 3], ["uint8"]) },
    tensor: expectedTensor(decoded(json, "tensor", size, ["uint8", "float32"]), input),
    scores: expectedScores(json, output),
    output,
    tolerance: {
      tensor: positive(json, "tensor"),
      scores: positive(json, "scores"),
      // The fraction of pixels that may have another class although their scores are near.
      pixels: output.kind === "scores" ? positive(json, "pixels") : null,
      // For backends that compute in half precision; absent if the exporter did not measure it.
      half:
        json.tolerance.scores_half_precision === undefined
          ? null
          : positive(json, "scores_half_precision"),
    },
  };
}

/**
 * Compares what a browser computed with what golden.json says.
 *
 * @param {object} golden the result of `readGolden`
 * @param {ArrayLike<number>} tensor what the picture became
 * @param {Float32Array} scores what the model made of it
 * @param {boolean} isHalf whether the backend computes in half precision
 */
export function compare(golden, tensor, scores, isHalf) {
  const tolerance = isHalf
    ? (golden.tolerance.half ?? golden.tolerance.scores)
    : golden.tolerance.scores;
  const { output } = golden;
  const tensorDifference = largestDifference(golden.tensor, tensor);
  const changed = output.isMask ? changedPixels(golden.scores, scores, output) : null;
  const scoreDifference =
    output.kind === "class_map" ? changed : largestDifference(golden.scores, scores);
  const pixels =
    output.kind === "scores" ? { difference: changed, tolerance: golden.tolerance.pixels } : null;
  return {
    tensorDifference,
    tensorTolerance: golden.tolerance.tensor,
    scoreDifference,
    scoreTolerance: tolerance,
    compared: COMPARED.get(output.kind) ?? "scores",
    pixels,
    expectedClass: bestClass(golden.scores, output),
    foundClass: bestClass(scores, output),
    // NaN is in no tolerance.
    passed:
      tensorDifference <= golden.tolerance.tensor &&
      scoreDifference <= tolerance &&
      (pixels === null || pixels.difference <= pixels.tolerance),
  };
}

function largestDifference(expected, actual) {
  if (expected.length !== actual.length) return NaN;
  // Math.max is NaN if one of the differences is.
  return expected.reduce((most, value, i) => Math.max(most, Math.abs(value - actual[i])), 0);
}

/** The fraction of the pixels of a mask with another class. */
function changedPixels(expected, actual, output) {
  if (expected.length !== actual.length) return NaN;
  const found = bestOf(actual, output);
  const changed = bestOf(expected, output).filter((each, i) => each !== found[i]);
  return changed.length / found.length;
}

/** Of features and of masks there is none. */
function bestClass(scores, output) {
  if (!output.classes || output.isMask) return null;
  const values = probabilities(scores, output);
  return values.reduce((best, value, i) => (value > values[best] ? i : best), 0);
}

/** The tensor as the file takes it: Python stores what is then quantised. */
function expectedTensor(values, input) {
  return input.dtype === "float32" ? values : quantize(values, input);
}

function expectedScores(json, output) {
  const dtype = output.kind === "class_map" ? "uint8" : "float32";
  const scores = decoded(json, "scores", output.shape, [dtype]);
  if (strangeClass(scores, output) !== undefined) throw misfit("scores");
  return scores;
}

function decoded(json, name, shape, dtypes) {
  const entry = json?.[name];
  const fits = dtypes.includes(entry?.dtype) && String(entry.shape) === String(shape);
  const size = shape.reduce((product, side) => product * side, 1);
  const type = entry?.dtype === "uint8" ? Uint8Array : Float32Array;
  const bytes = fits ? fromBase64(entry.base64) : null;
  if (bytes?.length !== size * type.BYTES_PER_ELEMENT) throw misfit(name);
  return new type(bytes.buffer); // browsers run on little-endian processors
}

function misfit(name) {
  return new UserError(`golden.json: ${name} does not fit the model; export it again.`);
}

function positive(json, name) {
  const value = json?.tolerance?.[name];
  if (typeof value === "number" && value > 0) return value;
  throw new UserError(`golden.json: expected a positive tolerance.${name}; export it again.`);
}
