import assert from "node:assert/strict";
import { test } from "node:test";

import { join } from "../page/added.js";
import { topK } from "../page/scores.js";
import { lookUp, shares, unit } from "../page/similar.js";

/** Pictures of these classes in the plane, at these angles in degrees. */
function gallery(angles, classes, vote) {
  const pictures = angles.map((angle, i) => ({
    name: `${i}`,
    class: classes[i],
    vector: Float32Array.from(at(angle)),
  }));
  return { classes: ["a", "b", "c"], pictures, vote };
}

function at(angle, length = 1) {
  return [length * Math.cos((angle * Math.PI) / 180), length * Math.sin((angle * Math.PI) / 180)];
}

const cosine = (degrees) => Math.cos((degrees * Math.PI) / 180);

function near(actual, expected) {
  assert.ok(Math.abs(actual - expected) < 1e-6, `${actual} is not ${expected}`);
}

const PICTURES = { of: "pictures", neighbours: 3, temperature: 0.5 };
const MEANS = { of: "means", temperature: 0.5 };

test("the most similar pictures come first, whatever their class and the vector's length", () => {
  const collection = join(gallery([50, 10, 90, 0], [0, null, 1, 1], PICTURES), []);
  for (const length of [1, 1e-30, 1e30]) {
    const { similar } = lookUp(Float32Array.from(at(0, length)), collection, 3);
    assert.deepEqual(
      similar.map(({ picture }) => picture.name),
      ["3", "1", "0"],
    );
    [0, 10, 50].forEach((angle, i) => near(similar[i].similarity, cosine(angle)));
  }
});

test("the neighbours that have a class vote with exp(similarity / temperature) / its pictures", () => {
  // The picture at 5 degrees has no class, and the one at 80 is the fourth that has one.
  const collection = join(gallery([10, 5, 30, 20, 80], [0, null, 0, 1, 2], PICTURES), []);
  const { predictions } = lookUp(Float32Array.from(at(0)), collection);
  const [ten, twenty, thirty] = [10, 20, 30].map((angle) => Math.exp(cosine(angle) / 0.5));
  const sum = (ten + thirty) / 2 + twenty;
  assert.deepEqual(
    predictions.map(({ label }) => label),
    ["b", "a"],
  );
  near(predictions[1].probability, (ten + thirty) / 2 / sum);
  near(predictions[0].probability, twenty / sum);
});

test("a class of few pictures is found among large ones", () => {
  const large = gallery(Array(50).fill(12), Array(50).fill(0), { ...PICTURES, neighbours: 10 });
  const added = [{ name: "new", pictures: [10, 11].map((angle) => ({ vector: at(angle) })) }];
  const { predictions } = lookUp(Float32Array.from(at(0)), join(large, added));
  assert.equal(predictions[0].label, "new");
  assert.ok(predictions[0].probability > 0.8);
});

test("the mean of each class votes once, whatever its length", () => {
  // The means point to 45 degrees and to 100; those of a are far from each other.
  const collection = join(gallery([0, 90, 100, 20], [0, 0, 1, null], MEANS), []);
  const { predictions } = lookUp(Float32Array.from(at(60)), collection);
  const [a, b] = [Math.exp(cosine(15) / 0.5), Math.exp(cosine(40) / 0.5)];
  assert.deepEqual(
    predictions.map(({ label }) => label),
    ["a", "b"],
  );
  near(predictions[0].probability, a / (a + b));
  near(predictions[1].probability, b / (a + b));
});

test("of equal pictures and classes the first comes first", () => {
  const collection = join(gallery([10, 10, 10, 10], [2, 1, 1, 2], { ...PICTURES, neighbours: 4 }), []);
  const { similar, predictions } = lookUp(Float32Array.from(at(0)), collection, 3);
  assert.deepEqual(
    similar.map(({ picture }) => picture.name),
    ["0", "1", "2"],
  );
  assert.deepEqual(predictions, [
    { label: "b", probability: 0.5 },
    { label: "c", probability: 0.5 },
  ]);
  // Of equal pictures the first are the neighbours.
  const one = { ...collection, vote: { ...PICTURES, neighbours: 1 } };
  assert.deepEqual(lookUp(Float32Array.from(at(0)), one).predictions, [{ label: "c", probability: 1 }]);
});

test("a vector of zeros, of the picture or of the gallery, has the similarity 0", () => {
  assert.deepEqual([...unit(Float32Array.of(0, 0))], [0, 0]);
  for (const vote of [PICTURES, MEANS]) {
    const zeros = gallery([0, 90], [0, 1], vote);
    zeros.pictures[0].vector = Float32Array.of(0, 0);
    zeros.pictures[1].vector = Float32Array.of(0, 1);
    const joined = join(zeros, []);
    for (const vector of [Float32Array.of(0, 0), Float32Array.of(1, 0)]) {
      const { similar, predictions } = lookUp(vector, joined);
      assert.equal(similar[0].picture.name, "0");
      assert.equal(similar[0].similarity, 0);
      for (const { probability } of predictions) near(probability, 0.5);
    }
  }
});

test("shares are finite for any temperature", () => {
  const votes = [
    { class: 1, similarity: 1, size: 1 },
    { class: 0, similarity: -1, size: 1 },
  ];
  for (const temperature of [5e-324, 1e-9]) {
    assert.deepEqual(shares(votes, temperature), [
      { class: 1, share: 1 },
      { class: 0, share: 0 },
    ]);
  }
  assert.equal(shares(votes, 1e308)[0].share, 0.5);
  assert.deepEqual(shares([], 1), []);
});

test("without pictures and without classes there are no answers", () => {
  const vector = Float32Array.from(at(0));
  assert.deepEqual(lookUp(vector, join(null, [])), { similar: [], predictions: [] });
  const { similar, predictions } = lookUp(vector, join(gallery([3], [null], PICTURES), []));
  assert.equal(similar.length, 1);
  assert.deepEqual(predictions, []);
});

test("topK of many values is that of sorting them", () => {
  const values = Float64Array.from({ length: 999 }, (_, i) => (i * 7919) % 101);
  const sorted = [...values.keys()].sort((a, b) => values[b] - values[a] || a - b);
  for (const k of [1, 5, 500, 999, 2000]) assert.deepEqual(topK(values, k), sorted.slice(0, k));
});
