import assert from "node:assert/strict";
import { test } from "node:test";

import { readDescription } from "../page/bundle.js";
import { classify, tell } from "../page/classify.js";
import { UserError } from "../page/errors.js";
import { compare, readGolden } from "../page/golden.js";
import { coloursOf, maskOf, sharesOf } from "../page/masks.js";
import { fixture, scenes } from "./fixtures.js";

const bytes = (base64) => Uint8Array.from(Buffer.from(base64, "base64"));

for (const [i, { shape, classes, size, values, mask, shares }] of fixture("masks").entries()) {
  test(`case ${i}: the mask of ${shape.join(" x ")} in ${size.join(" x ")} pixels is Python's`, () => {
    const kind = shape.length === 3 ? "scores" : "class_map";
    const [rows, columns] = shape;
    const given = new Float32Array(bytes(values).buffer);
    const found = maskOf(given, { kind, rows, columns, classes }, { height: size[0], width: size[1] });
    assert.deepEqual(found.classes, bytes(mask));
    const labels = Array.from({ length: classes }, (_, label) => String(label));
    const parts = sharesOf(found, labels).map(({ index, share }) => [index, Number(share.toFixed(9))]);
    assert.deepEqual(parts, shares);
  });
}

test("the colours of classes are Python's", () => {
  const hex = (colour) => colour && `#${Buffer.from(colour).toString("hex")}`;
  for (const { labels, colours } of fixture("class_colours")) {
    assert.deepEqual(coloursOf(labels).map(hex), colours);
  }
});

/** A bundle of scenes, or one whose output is a class map, with a change. */
function bundleOf({ isMap = false, golden: goldenChange = () => {}, output: outputChange = {} } = {}) {
  const [model, golden] = scenes();
  if (isMap) {
    const scores = new Float32Array(bytes(golden.scores.base64).buffer);
    const best = maskOf(scores, { kind: "scores", rows: 32, columns: 32, classes: 11 }, { height: 32, width: 32 });
    const base64 = Buffer.from(best.classes).toString("base64");
    golden.scores = { dtype: "uint8", shape: [32, 32], base64 };
    golden.tolerance = { tensor: 1e-6, scores: 0.04 };
    model.output = { ...model.output, kind: "class_map", shape: [1, 32, 32], dtype: "uint8" };
  }
  goldenChange(golden);
  const description = readDescription({ ...model, output: { ...model.output, ...outputChange } });
  const labels = ["background", ..."0123456789"];
  return { description, labels, golden: readGolden(golden, description) };
}

const shifted = (scores, by) => Float32Array.from(scores, (_, i) => scores[(i + by) % scores.length]);

test("the golden check of masks passes, and fails by each of its tolerances", () => {
  const { golden } = bundleOf();
  const { tensor, scores } = golden;
  const same = compare(golden, tensor, scores, false);
  assert.deepEqual([same.passed, same.pixels.difference, same.expectedClass], [true, 0, null]);
  const moved = compare(golden, tensor, shifted(scores, 4 * 11), false);
  assert.ok(!moved.passed && moved.scoreDifference > golden.tolerance.scores);
  const raised = compare(golden, tensor, scores.map((each) => each + 2 * golden.tolerance.scores), false);
  assert.deepEqual([raised.passed, raised.pixels.difference], [false, 0]);
  // Scores that are near each other, and the classes of many pixels.
  const near = scores.map((each) => each / 1e3);
  const even = { ...golden, scores: near };
  const exchanged = compare(even, tensor, near.map((_, i) => near[i - (i % 11) + ((i + 1) % 11)]), false);
  assert.ok(exchanged.scoreDifference < golden.tolerance.scores);
  assert.ok(!exchanged.passed && exchanged.pixels.difference > exchanged.pixels.tolerance);
  assert.ok(!compare(golden, tensor, scores.map(() => NaN), false).passed);
});

test("the golden check of a class map counts pixels", () => {
  const { golden } = bundleOf({ isMap: true });
  const changed = (count) => Float32Array.from(golden.scores, (each, i) => (i < count ? (each + 1) % 11 : each));
  const few = compare(golden, golden.tensor, changed(40), false);
  assert.deepEqual([few.passed, few.scoreDifference, few.pixels], [true, 40 / 1024, null]);
  assert.ok(!compare(golden, golden.tensor, changed(42), false).passed);
});

test("a card gets the mask and the shares, and scores of pixels are not kept", async () => {
  for (const isMap of [false, true]) {
    const bundle = bundleOf({ isMap });
    const engine = { run: async () => bundle.golden.scores };
    const { scores } = await classify(bundle.golden.image, bundle, engine);
    const { mask, predictions, scores: kept } = tell(scores, bundle, null);
    assert.deepEqual([predictions, kept, mask.height, mask.width], [[], null, 32, 32]);
    assert.equal(mask.shares[0].label, "background");
  }
});

test("a class that the bundle does not name is one line", async () => {
  const bundle = bundleOf({ isMap: true });
  const engine = { run: async () => bundle.golden.scores.map((each, i) => (i === 7 ? 11 : each)) };
  const wrong = new UserError("The model gives class 11, and has 11; export it again.");
  await assert.rejects(classify(bundle.golden.image, bundle, engine), wrong);
});

test("a golden picture has no class that the bundle does not name", () => {
  const golden = ({ scores }) => (scores.base64 = Buffer.alloc(32 * 32, 11).toString("base64"));
  assert.throws(() => bundleOf({ isMap: true, golden }), /^Error: golden.json: scores does not fit the model/);
});

for (const [name, change, message] of [
  ["classes", { classes: 10 }, /output.classes cannot be 10/],
  ["too many classes", { classes: 257, shape: [1, 1, 1, 257] }, /output.classes cannot be 257/],
  ["a shape without classes", { shape: [1, 32, 32] }, /output.shape/],
  ["a shape that is too large", { shape: [1, 5000, 5000, 11] }, /output.shape/],
  ["a class map of floats", { kind: "class_map", shape: [1, 32, 32] }, /output.dtype cannot be "float32"/],
]) {
  test(`a description of masks with ${name} is refused`, () => {
    assert.throws(() => bundleOf({ output: change }), (error) => error instanceof UserError && message.test(error.message));
  });
}

test("a golden picture of masks needs a tolerance of pixels", () => {
  const golden = (json) => delete json.tolerance.pixels;
  assert.throws(() => bundleOf({ golden }), /expected a positive tolerance.pixels; export it again/);
});
