/** Reads and checks a bundle: model.json, labels.txt, model.tflite, golden.json. */

import { UserError, shown } from "./errors.js";
import { fetchBytes, fetchJson, fetchText } from "./files.js";
import { fetchGallery } from "./gallery.js";
import { readGolden } from "./golden.js";
import { answersOf } from "./scores.js";

const MOST_SIDE = 4096;
const MOST_CLASSES = 1_000_000;
const MOST_VALUES = 2 ** 24; // of a feature map or a mask
const MOST_MASK_CLASSES = 255; // a byte for each pixel, as in Python

/**
 * Fetches a bundle of this site.
 *
 * @param {string} name its folder in bundles/
 * @param {boolean} hasGallery whether it has a folder gallery/
 * @returns {Promise<{name, description, labels: string[], model: Uint8Array, golden, gallery}>} without
 *     classes there are no labels; without a gallery it is null
 * @throws {UserError}
 */
export async function fetchBundle(name, hasGallery) {
  const description = readDescription(await fetchJson(name, "model.json"));
  const isFeatures = description.output.kind === "features";
  const [labels, golden, model, gallery] = await Promise.all([
    description.output.classes ? fetchLabels(name, description) : [],
    fetchJson(name, "golden.json"),
    fetchBytes(name, "model.tflite"),
    isFeatures && hasGallery ? fetchGallery(name, description) : null,
  ]);
  await checkModel(model, description);
  return { name, description, labels, model, golden: readGolden(golden, description), gallery };
}

async function fetchLabels(name, { output }) {
  const labels = readLabels(await fetchText(name, "labels.txt"), output.classes);
  return output.isMask ? labels : answersOf(labels);
}

/** What the page needs of model.json, checked. */
export function readDescription(json) {
  if (json?.format !== 1) {
    throw new UserError(`model.json: expected format 1. Received: ${shown(json?.format)}.`);
  }
  const input = readInput(json.input ?? {});
  return {
    model: text(json.model, "model"),
    precision: text(json.precision, "precision"),
    bytes: integer(json.bytes, "bytes", 2 ** 31),
    sha256: text(json.sha256, "sha256"),
    input,
    output: readOutput(json.output ?? {}),
  };
}

/** The lines of labels.txt, divided as Python divides them. */
export function readLabels(content, classes) {
  const lines = content.replace(/\r\n?/g, "\n").replace(/\n$/, "").split("\n");
  if (lines.length === classes) return lines;
  throw new UserError(`labels.txt: expected ${classes} lines. Received: ${lines.length}.`);
}

function readInput(json) {
  const height = integer(json.height, "input.height", MOST_SIDE);
  const width = integer(json.width, "input.width", MOST_SIDE);
  check([undefined, "RGB", "grey"].includes(json.channels), "input.channels", json.channels);
  const channels = json.channels === "grey" ? 1 : 3;
  check(String(json.shape) === `1,${height},${width},${channels}`, "input.shape", json.shape);
  const isFraction = json.crop > 0 && json.crop <= 1;
  check(json.crop === null || isFraction, "input.crop", json.crop);
  const known = ["nearest", "bilinear", "bicubic", "mediapipe"].includes(json.interpolation);
  check(known, "input.interpolation", json.interpolation);
  const isWhole = json.crop === null || json.interpolation !== "mediapipe"; // MediaPipe crops nothing
  check(isWhole, "input.crop", json.crop);
  return {
    height,
    width,
    dtype: dtype(json.dtype, "input.dtype"),
    quantization: quantization(json, "input"),
    crop: json.crop,
    interpolation: json.interpolation,
    channels,
    mean: perChannel(json.mean, "input.mean", Number.isFinite),
    scale: perChannel(json.scale, "input.scale", (value) => value > 0 && Number.isFinite(value)),
  };
}

const OUTPUTS = new Map([
  ["logits", readClasses],
  ["probabilities", readClasses],
  ["features", readFeatures],
  ["feature_map", readFeatureMap],
  ["scores", readScoresOfPixels],
  ["class_map", readClassMap],
]);

function readOutput(json) {
  const read = OUTPUTS.get(json.kind);
  if (!read) {
    const known = [...OUTPUTS.keys()].join(", ");
    throw new UserError(`the model gives ${shown(json.kind)}; export it with one of ${known}.`);
  }
  const ofKind = read(json);
  check(String(json.shape) === `1,${ofKind.shape}`, "output.shape", json.shape);
  return {
    kind: json.kind,
    ...ofKind,
    dtype: dtype(json.dtype, "output.dtype"),
    quantization: quantization(json, "output"),
  };
}

function readClasses(json) {
  const classes = integer(json.classes, "output.classes", MOST_CLASSES);
  const activation = json.activation ?? "softmax"; // older bundles state none
  check(["softmax", "sigmoid"].includes(activation), "output.activation", activation);
  const isExclusive = activation === "softmax" || classes === 1; // or several can be right
  return { size: classes, shape: [classes], classes, isExclusive };
}

function readFeatures(json) {
  check(typeof json.normalized === "boolean", "output.normalized", json.normalized);
  const size = integer(json.shape?.[1], "output.shape", MOST_CLASSES);
  return { size, shape: [size], isNormalized: json.normalized };
}

function readFeatureMap(json) {
  const { shape, size } = readShape(json, 3);
  const [rows, columns, features] = shape;
  return { size, shape, rows, columns, features };
}

function readScoresOfPixels(json) {
  const { shape, size } = readShape(json, 3);
  const [rows, columns, classes] = shape;
  const isStated = classes === json.classes && classes <= MOST_MASK_CLASSES;
  check(isStated, "output.classes", json.classes);
  return { size, shape, rows, columns, classes, isMask: true };
}

function readClassMap(json) {
  const { shape, size } = readShape(json, 2);
  const classes = integer(json.classes, "output.classes", MOST_MASK_CLASSES);
  check(json.dtype === "uint8" && json.quantization === undefined, "output.dtype", json.dtype);
  return { size, shape, rows: shape[0], columns: shape[1], classes, isMask: true };
}

/** The sides of an output of parts of a picture, and how many values it has. */
function readShape(json, axes) {
  const sides = Array.from({ length: axes }, (_, axis) => json.shape?.[axis + 1]);
  const shape = sides.map((side) => integer(side, "output.shape", MOST_CLASSES));
  const size = shape.reduce((product, side) => product * side, 1);
  check(size <= MOST_VALUES, "output.shape", json.shape);
  return { shape, size };
}

/** LiteRT.js has no other types of images and scores. */
function dtype(value, name) {
  check(value === "float32" || value === "uint8", name, value);
  return value;
}

function quantization(json, name) {
  if (json.quantization === undefined) return null;
  const { scale, zero_point: zeroPoint } = json.quantization ?? {};
  check(json.dtype === "uint8" && scale > 0, `${name}.quantization`, json.quantization);
  check(
    Number.isInteger(zeroPoint) && zeroPoint >= 0 && zeroPoint < 256,
    `${name}.quantization`,
    zeroPoint,
  );
  return { scale, zeroPoint };
}

/** Numbers for R, G and B; one number stands for all three. */
function perChannel(value, name, isValid) {
  const values = Array.isArray(value) ? value : [value, value, value];
  check(values.length === 3 && values.every(isValid), name, value);
  return values;
}

function text(value, name) {
  check(typeof value === "string", name, value);
  return value;
}

function integer(value, name, most) {
  check(Number.isInteger(value) && value > 0 && value <= most, name, value);
  return value;
}

function check(isRight, name, value) {
  if (!isRight) {
    throw new UserError(`model.json: ${name} cannot be ${shown(value)}; export it again.`);
  }
}

async function checkModel(model, description) {
  if (model.length !== description.bytes) {
    throw new UserError(
      `model.tflite: expected ${description.bytes} bytes. Received: ${model.length}; export it again.`,
    );
  }
  if (!globalThis.crypto?.subtle) return; // a page that is neither https nor localhost
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", model));
  const received = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (received !== description.sha256) {
    throw new UserError("model.tflite is not the file that model.json describes; export it again.");
  }
}
