import assert from "node:assert/strict";
import { test } from "node:test";

import { UserError } from "../page/errors.js";
import { readGallery } from "../page/gallery.js";

const DESCRIPTION = { sha256: "ab12", output: { size: 2 } };
const ROWS = [1, 0, 0.6, 0.8, 0, -1];

/** gallery.json of three pictures. */
function described() {
  return {
    format: 1,
    sha256: "ab12",
    features: 2,
    classes: ["cat", "dog"],
    pictures: [
      { name: "cat/1.jpg", target: 0 },
      { name: "dog/1.jpg", target: 1 },
      { name: "x.jpg", target: null },
    ],
    vote: { of: "pictures", neighbours: 10, temperature: 0.07 },
  };
}

function read(json, rows = ROWS) {
  return readGallery(json, new Uint8Array(Float32Array.from(rows).buffer), DESCRIPTION, "a/gallery");
}

test("a gallery has for each picture its class, its vector and the address of its thumbnail", () => {
  const { classes, pictures, vote } = read(described());
  assert.deepEqual(classes, ["cat", "dog"]);
  assert.deepEqual(
    pictures.map(({ name, class: index, thumbnail }) => [name, index, thumbnail]),
    [
      ["cat/1.jpg", 0, "a/gallery/0.jpg"],
      ["dog/1.jpg", 1, "a/gallery/1.jpg"],
      ["x.jpg", null, "a/gallery/2.jpg"],
    ],
  );
  assert.deepEqual([...pictures[1].vector], [Math.fround(0.6), Math.fround(0.8)]);
  assert.deepEqual(vote, { of: "pictures", neighbours: 10, temperature: 0.07 });
});

test("a gallery may have no classes, and means need no number of neighbours", () => {
  const json = described();
  json.classes = [];
  for (const picture of json.pictures) picture.target = null;
  json.vote = { of: "means", temperature: 0.1 };
  assert.deepEqual(read(json).vote, { of: "means", neighbours: undefined, temperature: 0.1 });
});

const DAMAGES = {
  "a newer format": (json) => (json.format = 2),
  "another model's hash": (json) => (json.sha256 = "cd34"),
  "other features": (json) => (json.features = 3),
  "a number for a class": (json) => (json.classes[0] = 7),
  "a class twice": (json) => (json.classes[1] = "cat"),
  "a class without pictures": (json) => json.classes.push("cow"),
  "no classes": (json) => delete json.classes,
  "no pictures": (json) => delete json.pictures,
  "too many pictures": (json) => (json.pictures = Array(100_001).fill(json.pictures[0])),
  "a picture without a name": (json) => delete json.pictures[0].name,
  "a picture that is null": (json) => (json.pictures[0] = null),
  "a class out of range": (json) => (json.pictures[1].target = 2),
  "a class below 0": (json) => (json.pictures[1].target = -1),
  "half a class": (json) => (json.pictures[1].target = 0.5),
  "a picture that says no class": (json) => delete json.pictures[1].target,
  "no vote": (json) => delete json.vote,
  "an unknown vote": (json) => (json.vote.of = "__proto__"),
  "no neighbours": (json) => (json.vote.neighbours = 0),
  "a temperature of 0": (json) => (json.vote.temperature = 0),
  "text for a temperature": (json) => (json.vote.temperature = "0.07"),
};
for (const [name, damage] of Object.entries(DAMAGES)) {
  test(`gallery.json with ${name} is refused in one line`, () => {
    const json = described();
    damage(json);
    assert.throws(() => read(json), /^Error: gallery\.json: .{1,150}; index it again\.$/);
    assert.throws(() => read(json), UserError);
  });
}

test("gallery.json that is no object is refused in one line", () => {
  for (const json of [null, [], 1]) assert.throws(() => read(json), UserError);
});

test("vectors.bin of another size, or with other values than of length 1, is refused", () => {
  const expected = "vectors.bin: expected 24 bytes. Received: 20; index it again.";
  assert.throws(() => read(described(), ROWS.slice(1)), { message: expected });
  for (const value of [NaN, Infinity, -2, 0.9]) {
    const message = "vectors.bin: expected vectors of length 1; index it again.";
    assert.throws(() => read(described(), ROWS.with(3, value)), { message });
  }
});
