import assert from "node:assert/strict";
import { test } from "node:test";

import { readDescription, readLabels } from "../page/bundle.js";
import { UserError } from "../page/errors.js";
import { compare, readGolden } from "../page/golden.js";
import { preprocess } from "../page/preprocess.js";
import { digits, digitsMap } from "./fixtures.js";

for (const precision of ["float16", "int8"]) {
  test(`the golden picture of ${precision} becomes the golden tensor`, () => {
    const [json, goldenJson] = digits(precision);
    const description = readDescription(json);
    const golden = readGolden(goldenJson, description);
    const tensor = preprocess(golden.image, description.input);
    const same = compare(golden, tensor, golden.scores, false);
    assert.equal(same.tensorDifference, 0);
    assert.ok(same.passed);
    const moved = tensor.with(5, tensor[5] + 1);
    assert.ok(!compare(golden, moved, golden.scores, false).passed);
    const wrong = golden.scores.map((score) => score + 2 * golden.tolerance.scores);
    assert.ok(!compare(golden, tensor, wrong, false).passed);
    assert.ok(!compare(golden, tensor, golden.scores.with(0, NaN), false).passed);
    assert.ok(!compare(golden, tensor, golden.scores.slice(1), false).passed);
  });
}

test("the golden check compares the answers of one score", () => {
  const [json, goldenJson] = digits("float16");
  Object.assign(json.output, { shape: [1, 1], classes: 1 });
  const base64 = Buffer.from(Float32Array.of(0.5).buffer).toString("base64");
  goldenJson.scores = { dtype: "float32", shape: [1], base64 };
  const golden = readGolden(goldenJson, readDescription(json));
  const found = (score) => compare(golden, golden.tensor, Float32Array.of(score), false).foundClass;
  assert.deepEqual([found(0.5), found(0), found(-0.5)], [1, 0, 0]);
  assert.equal(compare(golden, golden.tensor, golden.scores, false).expectedClass, 1);
});

test("features are described, and are compared without classes", () => {
  const [json, goldenJson] = digits("float16");
  const { name, shape, dtype } = json.output;
  json.output = { name, shape, dtype, kind: "features", normalized: false };
  const description = readDescription(json);
  assert.equal(description.output.size, 10);
  assert.equal(description.output.isNormalized, false);
  const golden = readGolden(goldenJson, description);
  const { passed, expectedClass, foundClass } = compare(golden, golden.tensor, golden.scores, false);
  assert.deepEqual([passed, expectedClass, foundClass], [true, null, null]);
  assert.ok(!compare(golden, golden.tensor, golden.scores.map((each) => -each), false).passed);
});

test("a feature map is described, and is compared without classes", () => {
  const [json, goldenJson] = digitsMap();
  const { input, output } = readDescription(json);
  const { rows, columns, features, size, classes } = output;
  assert.deepEqual({ rows, columns, features, size, classes }, {
    rows: 8,
    columns: 8,
    features: 64,
    size: 8 * 8 * 64,
    classes: undefined,
  });
  const golden = readGolden(goldenJson, { input, output });
  assert.equal(golden.scores.length, size);
  const tensor = preprocess(golden.image, input);
  const { passed, tensorDifference, foundClass } = compare(golden, tensor, golden.scores, false);
  assert.deepEqual([passed, tensorDifference, foundClass], [true, 0, null]);
  const wrong = golden.scores.with(size - 1, golden.scores[size - 1] + 2 * golden.tolerance.scores);
  assert.ok(!compare(golden, tensor, wrong, false).passed);
  goldenJson.scores.shape = [64, 64]; // as many values
  assert.throws(() => readGolden(goldenJson, { input, output }), isOneLine);
});

test("a feature map may have 2 ** 24 values", () => {
  const shaped = (...shape) => {
    const [json] = digitsMap();
    json.output.shape = shape;
    return () => readDescription(json);
  };
  assert.equal(shaped(1, 64, 256, 1024)().output.size, 2 ** 24);
  assert.equal(shaped(1, 1, 1, 1_000_000)().output.features, 1_000_000);
  for (const shape of [
    [1, 64, 256, 1025],
    [1, 1, 1, 1_000_001],
    [1, 0, 8, 64],
    [1, 8, 8.5, 64],
    [1, 8, -8, -64],
    [2, 8, 8, 64],
    [1, 64, 64],
    [1, 8, 8, 64, 1],
    [1, 8, 8, "64"],
    [],
  ]) {
    assert.throws(shaped(...shape), isOneLine, String(shape));
  }
});

test("half precision has a tolerance of its own", () => {
  const [json, goldenJson] = digits("float16");
  const description = readDescription(json);
  goldenJson.tolerance = { tensor: 1e-6, scores: 0.01, scores_half_precision: 0.1 };
  const golden = readGolden(goldenJson, description);
  const near = golden.scores.map((score) => score + 0.05);
  assert.ok(compare(golden, golden.tensor, near, true).passed);
  assert.ok(!compare(golden, golden.tensor, near, false).passed);
});

test("integer inputs are compared as the file takes them", () => {
  const [json, goldenJson] = digits("float16");
  Object.assign(json.input, { dtype: "uint8", mean: 0, scale: 1 });
  const description = readDescription(json);
  const pixels = preprocess(
    readGolden(digits("float16")[1], readDescription(digits("float16")[0])).image,
    description.input,
  );
  goldenJson.tensor = {
    dtype: "uint8",
    shape: [32, 32, 3],
    base64: Buffer.from(pixels).toString("base64"),
  };
  const golden = readGolden(goldenJson, description);
  assert.ok(compare(golden, pixels, golden.scores, false).passed);
});

test("a grey model takes the luma of pictures", () => {
  const [json, goldenJson] = digits("float16");
  Object.assign(json.input, { channels: "grey", shape: [1, 32, 32, 1] });
  const { input } = readDescription(json);
  assert.equal(input.channels, 1);
  goldenJson.tensor = {
    dtype: "float32",
    shape: [32, 32, 1],
    base64: Buffer.alloc(4 * 32 * 32).toString("base64"),
  };
  const golden = readGolden(goldenJson, readDescription(json));
  assert.equal(preprocess(golden.image, input).length, golden.tensor.length);
});

const DAMAGES = {
  "a newer format": (json) => (json.format = 2),
  "no input": (json) => delete json.input,
  "a side of a billion": (json) =>
    Object.assign(json.input, { height: 1e9, shape: [1, 1e9, 32, 3] }),
  "a fraction of a pixel": (json) => (json.input.width = 31.5),
  "unknown channels": (json) => (json.input.channels = "__proto__"),
  "grey pixels of an RGB shape": (json) => (json.input.channels = "grey"),
  "another shape": (json) => (json.input.shape = [1, 32, 32, 1]),
  "a crop of 0": (json) => (json.input.crop = 0),
  "a crop for MediaPipe's resize": (json) =>
    Object.assign(json.input, { crop: 0.875, interpolation: "mediapipe" }),
  "an unknown interpolation": (json) => (json.input.interpolation = "__proto__"),
  "a type that LiteRT.js lacks": (json) => (json.input.dtype = "int8"),
  "a scale of 0": (json) => (json.input.scale = [127.5, 0, 127.5]),
  "text for a mean": (json) => (json.input.mean = "<b>"),
  tokens: (json) => (json.output.kind = "tokens"),
  "features that do not say their length": (json) => (json.output.kind = "features"),
  "features of no size": (json) =>
    Object.assign(json.output, { kind: "features", normalized: true, shape: [1, 0] }),
  "features for each position": (json) =>
    Object.assign(json.output, { kind: "features", normalized: true, shape: [1, 7, 10] }),
  "an unknown activation": (json) => (json.output.activation = "relu"),
  "no classes": (json) => (json.output.classes = 0),
  "a float that is quantised": (json) => (json.output.quantization = { scale: 1, zero_point: 0 }),
};
for (const [name, damage] of Object.entries(DAMAGES)) {
  test(`model.json with ${name} is refused in one line`, () => {
    const [json] = digits("int8");
    damage(json);
    assert.throws(() => readDescription(json), isOneLine);
  });
}

const GOLDEN_DAMAGES = {
  "no image": (golden) => delete golden.image,
  "an image of another size than its bytes": (golden) => (golden.image.shape = [9, 8, 3]),
  "a tensor of another size": (golden) => (golden.tensor.shape = [31, 32, 3]),
  "text that is no base64": (golden) => (golden.scores.base64 = "!"),
  "no tolerance": (golden) => delete golden.tolerance,
  "a tolerance below 0": (golden) => (golden.tolerance.scores_half_precision = -1),
};
for (const [name, damage] of Object.entries(GOLDEN_DAMAGES)) {
  test(`golden.json with ${name} is refused in one line`, () => {
    const [json, golden] = digits("int8");
    damage(golden);
    assert.throws(() => readGolden(golden, readDescription(json)), isOneLine);
  });
}

test("labels are divided into lines as Python divides them", () => {
  assert.deepEqual(readLabels("a\r\nb\rc\u2028d\n", 3), ["a", "b", "c\u2028d"]);
  assert.deepEqual(readLabels("a\n\n", 2), ["a", ""]);
  assert.throws(() => readLabels("a\nb\n", 3), isOneLine);
});

function isOneLine(error) {
  assert.ok(error instanceof UserError, error.stack);
  assert.ok(!error.message.includes("\n") && error.message.length < 300);
  return true;
}
