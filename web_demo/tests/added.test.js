import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { join, parseAdded, readAdded, storeAdded, withPictures } from "../page/added.js";

const JPEG = "data:image/jpeg;base64,/9j/4A==";
const kept = new Map();
globalThis.localStorage = {
  getItem: (key) => kept.get(key) ?? null,
  setItem: (key, value) => kept.set(key, value),
  removeItem: (key) => kept.delete(key),
};
beforeEach(() => kept.clear());

function picture(name, ...vector) {
  return { name, vector: Float32Array.from(vector), thumbnail: JPEG };
}

const CATS = [{ name: "cat", pictures: [picture("1.jpg", 1, 0), picture("2.jpg", 0.6, 0.8)] }];

test("a class with a known name gets more pictures, and another name is another class", () => {
  const more = withPictures(CATS, "cat", [picture("3.jpg", 0, 1)]);
  assert.deepEqual(
    more.map(({ name, pictures }) => [name, pictures.map((each) => each.name)]),
    [["cat", ["1.jpg", "2.jpg", "3.jpg"]]],
  );
  const two = withPictures(CATS, "dog", [picture("3.jpg", 0, 1)]);
  assert.deepEqual(
    two.map(({ name }) => name),
    ["cat", "dog"],
  );
  assert.equal(CATS[0].pictures.length, 2);
});

test("added pictures come after those of the gallery, whose classes they may have", () => {
  const vote = { of: "pictures", neighbours: 10, temperature: 0.07 };
  const classes = ["owl", "cat", "cat"];
  const gallery = { classes, pictures: [{ ...picture("0.jpg", 1, 0), class: 2 }], vote };
  const added = [...CATS, { name: "dog", pictures: [picture("3.jpg", 0, 1)] }];
  const joined = join(gallery, added);
  assert.deepEqual(joined.classes, ["owl", "cat", "cat", "dog"]);
  assert.deepEqual(
    joined.pictures.map(({ name, class: index }) => [name, index]),
    [["0.jpg", 2], ["1.jpg", 1], ["2.jpg", 1], ["3.jpg", 3]],
  );
  assert.equal(gallery.pictures.length, 1);
  assert.deepEqual(join(null, CATS).vote, { of: "means", temperature: 0.07 });
  assert.equal(join(null, CATS).means.length, 1);
});

test("what is stored for a model is read again, and only for this model", () => {
  assert.equal(storeAdded("ab12", CATS), null);
  assert.deepEqual(readAdded("ab12", 2), CATS);
  assert.deepEqual(readAdded("cd34", 2), []);
  assert.equal(storeAdded("ab12", []), null);
  assert.equal(kept.size, 0);
});

const DAMAGES = {
  "a newer format": (json) => (json.format = 2),
  "no classes": (json) => delete json.classes,
  "a class without pictures": (json) => (json.classes[0].pictures = []),
  "a class that is null": (json) => (json.classes[0] = null),
  "a number for a name": (json) => (json.classes[0].name = 7),
  "the same name twice": (json) => json.classes.push(json.classes[0]),
  "pictures that are text": (json) => (json.classes[0].pictures = "pictures"),
  "a vector of another size": (json) => (json.classes[0].pictures[1].vector = "AACAPw=="),
  "a vector of 7 bytes": (json) => (json.classes[0].pictures[1].vector = "AACAPwAAAA=="),
  "a vector that is no base64": (json) => (json.classes[0].pictures[1].vector = "!"),
  "a vector with NaN": (json) => (json.classes[0].pictures[1].vector = "AADAfwAAgD8="),
  "an address for a thumbnail": (json) =>
    (json.classes[0].pictures[0].thumbnail = "https://example.com/1.jpg"),
  "an SVG for a thumbnail": (json) =>
    (json.classes[0].pictures[0].thumbnail = "data:image/svg+xml;base64,AAAA"),
  "no thumbnail": (json) => delete json.classes[0].pictures[0].thumbnail,
};
for (const [name, damage] of Object.entries(DAMAGES)) {
  test(`an entry with ${name} is ignored and removed`, () => {
    storeAdded("ab12", CATS);
    const [[key, entry]] = kept;
    const json = JSON.parse(entry);
    damage(json);
    kept.set(key, JSON.stringify(json));
    assert.deepEqual(readAdded("ab12", 2), []);
    assert.equal(kept.size, 0);
  });
}

test("an entry that is no JSON, or cut anywhere, is damaged", () => {
  storeAdded("ab12", CATS);
  const [[, entry]] = kept;
  for (let length = 0; length < entry.length; length++) {
    assert.equal(parseAdded(entry.slice(0, length), 2), null);
  }
  for (const text of ["null", "[]", "1", '{"format": 1}']) assert.equal(parseAdded(text, 2), null);
});

test("a full storage, or none, is one line, and what is kept stays", (t) => {
  storeAdded("ab12", CATS);
  const fail = () => {
    throw new Error("QuotaExceededError");
  };
  t.mock.method(localStorage, "setItem", fail);
  const problem = storeAdded("ab12", withPictures(CATS, "dog", [picture("3.jpg", 0, 1)]));
  assert.match(problem, /^The browser cannot store more.*Remove a class/);
  assert.deepEqual(readAdded("ab12", 2), CATS);
  t.mock.method(localStorage, "getItem", fail);
  assert.deepEqual(readAdded("ab12", 2), []);
});
