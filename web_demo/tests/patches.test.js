import assert from "node:assert/strict";
import { test } from "node:test";

import { classify, tell } from "../page/classify.js";
import { readDescription } from "../page/bundle.js";
import { UserError } from "../page/errors.js";
import { readGolden } from "../page/golden.js";
import { patchColours } from "../page/patch_colours.js";
import { meaningOf } from "../page/patches_view.js";
import { digitsMap, fixture } from "./fixtures.js";

const CASES = fixture("patch_colours");

for (const { shape, features, ...expected } of CASES) {
  test(`the colours of ${shape.join(" x ")} features are Python's`, () => {
    const actual = patchColours(floats(features), shape[2]);
    near(actual.colours, expected.colours, 1e-4);
    near(actual.fractions, expected.fractions, 1e-5);
  });
}

function floats(base64) {
  return new Float32Array(Uint8Array.from(Buffer.from(base64, "base64")).buffer);
}

function near(actual, expected, tolerance) {
  assert.equal(actual.length, expected.length);
  expected.forEach((value, i) => assert.ok(Math.abs(actual[i] - value) <= tolerance, `${i}: ${actual[i]}`));
}

test("the fixture has components that are left out", () => {
  const counts = CASES.map(({ fractions }) => fractions.length);
  assert.deepEqual([...new Set(counts)].sort(), [0, 2, 3]);
});

test("patches that are all the same, and one patch, are grey", () => {
  // No mean of these is exact in float32.
  for (const [patches, features] of [[49, 3], [1, 384], [1, 1]]) {
    const map = new Float32Array(patches * features).fill(0.1);
    const { colours, fractions } = patchColours(map, features);
    assert.deepEqual([[...new Set(colours)], fractions], [[0.5], []]);
  }
});

test("one direction has one colour, and outliers do not leave the others grey", () => {
  const map = Float32Array.from({ length: 200 }, (_, i) => (i % 2 ? 0 : i / 2)); // 0, 1, ... 99
  map[198] = 1e6;
  const { colours, fractions } = patchColours(map, 2);
  assert.deepEqual(fractions.map((each) => each.toFixed(6)), ["1.000000"]);
  // numpy.percentile(values, (2, 98)) is 1.98 and 97.02.
  near([colours[0], colours[150], colours[297]], [0, (50 - 1.98) / (97.02 - 1.98), 1], 1e-6);
  assert.ok(colours.every((value, i) => i % 3 === 0 || value === 0.5));
});

test("where nearly all patches are the same, the divisor is 1", () => {
  const map = new Float32Array(2 * 100);
  map[7] = -3;
  const { colours } = patchColours(map, 2);
  assert.deepEqual([colours[0], colours[9]], [0, 0]); // its largest entry is positive: -3 is below
  map[7] = 0.25;
  near([patchColours(map, 2).colours[9]], [0.25], 1e-9);
});

test("a card gets the colours of a map, and drops its many values", async () => {
  const [json, goldenJson] = digitsMap();
  const description = readDescription(json);
  const golden = readGolden(goldenJson, description);
  const found = await classify(golden.image, { description }, { run: async () => golden.scores });
  const told = tell(found.scores, { description, labels: [] }, null);
  assert.deepEqual([told.predictions, told.scores], [[], null]);
  assert.deepEqual([told.patches.rows, told.patches.columns, told.patches.colours.length], [8, 8, 192]);
  const { width, height } = golden.image;
  assert.deepEqual(found.seen, { left: 0, top: 0, right: width, bottom: height });
});

test("a model that gives fewer values than model.json says is one line", async () => {
  const [json, goldenJson] = digitsMap();
  const description = readDescription(json);
  const { image, scores } = readGolden(goldenJson, description);
  const run = async () => scores.slice(1);
  await assert.rejects(classify(image, { description }, { run }), UserError);
});

test("the caption says how much the colours hold", () => {
  const said = (...fractions) => meaningOf({ rows: 7, columns: 6, fractions });
  const held = (text) => `Similar colours: similar features. 6\u00a0×\u00a07 patches; ${text} of the variance.`;
  assert.equal(said(0.344, 0.12, 0.08), held("the colours hold 34%, 12% and 8%"));
  assert.equal(said(0.5, 0.4), held("the colours hold 50% and 40%"));
  assert.equal(said(0.996), held("the colour holds 100%"));
  assert.equal(said(), "6\u00a0×\u00a07 patches; no component has 1% of the variance.");
  assert.match(meaningOf({ rows: 1, columns: 1, fractions: [] }), /^1\s×\s1 patch; no/);
});
