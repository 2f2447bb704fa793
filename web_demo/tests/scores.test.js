import assert from "node:assert/strict";
import { test } from "node:test";

import { readDescription } from "../page/bundle.js";
import { median } from "../page/classify.js";
import { answersOf, percentText, probabilities, readScores, topK } from "../page/scores.js";
import { digits, fixture, stored } from "./fixtures.js";

test("integer scores are dequantised as in Python", () => {
  const cases = fixture("scores").outputs.filter(({ dtype }) => dtype === "uint8");
  assert.ok(cases.length > 0);
  for (const { raw, quantization, scores } of cases) {
    const [scale, zeroPoint] = quantization;
    const actual = readScores(Buffer.from(raw, "base64"), { quantization: { scale, zeroPoint } });
    assert.deepEqual(stored(actual, scores), scores);
  }
});

test("the best classes and their probabilities are those of decode_predictions", () => {
  for (const { scores, classes, ...expected } of fixture("scores").predictions) {
    const { output } = readDescription(describing(scores.length, expected));
    const all = probabilities(Float32Array.from(scores), output);
    const best = topK(all, 5);
    assert.deepEqual(best, classes);
    best.forEach((index, i) => {
      assert.ok(Math.abs(all[index] - expected.probabilities[i]) < 1e-12);
    });
  }
});

/** model.json of a model with so many scores. */
function describing(classes, { kind, activation }) {
  const [json] = digits("float16");
  Object.assign(json.output, { shape: [1, classes], classes, kind, activation });
  return json;
}

test("one score answers with the class or not the class", () => {
  assert.deepEqual(answersOf(["cat"]), ["not cat", "cat"]);
  assert.deepEqual(answersOf(["cat", "dog"]), ["cat", "dog"]);
});

test("what is not 0 is not shown as 0.0%", () => {
  const expected = {
    "0.0%": [0],
    "<0.1%": [1e-300, 1e-9, 0.000499],
    "0.1%": [0.0006, 0.001, 0.00149],
    "12.3%": [0.1234],
    "100.0%": [0.9999, 1],
  };
  for (const [text, values] of Object.entries(expected)) {
    assert.deepEqual(values.map(percentText), values.map(() => text));
  }
});

test("the median is NumPy's", () => {
  for (const { nanos, median: expected } of fixture("percentiles")) {
    assert.ok(Math.abs(median(nanos.map((each) => each / 1e6)) - expected) < 1e-9);
  }
});
