/** Reads and checks a gallery: pictures with the vectors that a bundle of features gave them. */

import { UserError, shown } from "./errors.js";
import { addressOf, fetchBytes, fetchJson } from "./files.js";
import { isUnit } from "./similar.js";

const MOST_PICTURES = 100_000;
const MOST_CLASSES = 1_000_000;

/**
 * Fetches the gallery of a bundle of this site.
 *
 * @param {string} name of the bundle
 * @param {object} description of the bundle (bundle.js)
 * @returns {Promise<object>} as `readGallery`
 * @throws {UserError}
 */
export async function fetchGallery(name, description) {
  const [json, bytes] = await Promise.all([
    fetchJson(name, "gallery/gallery.json", "index it again"),
    fetchBytes(name, "gallery/vectors.bin"),
  ]);
  return readGallery(json, bytes, description, addressOf(name, "gallery"));
}

/**
 * @param {object} json gallery.json
 * @param {Uint8Array} bytes vectors.bin
 * @param {object} description of the same bundle
 * @param {string} folder the address of the thumbnails
 * @returns {{classes: string[], pictures: {name, class: number | null, vector: Float32Array,
 *     thumbnail: string}[], vote: object}} a class is a place in `classes`
 */
export function readGallery(json, bytes, description, folder) {
  check(json?.format === 1, "format", json?.format);
  check(json.sha256 === description.sha256, "sha256", json.sha256);
  const { size } = description.output;
  check(json.features === size, "features", json.features);
  const { classes, pictures } = json;
  check(isList(classes, MOST_CLASSES), "classes", classes);
  for (const name of classes) check(typeof name === "string", "classes", name);
  check(isList(pictures, MOST_PICTURES), "pictures", pictures);
  for (const picture of pictures) check(isPicture(picture, classes), "pictures", picture);
  const targets = new Set(pictures.map(({ target }) => target));
  classes.forEach((name, i) => check(targets.has(i), "classes", name)); // it has pictures
  check(new Set(classes).size === classes.length, "classes", classes);
  const vote = readVote(json.vote);
  const vectors = readVectors(bytes, pictures.length, size);
  return {
    classes,
    pictures: pictures.map(({ name, target }, i) => ({
      name,
      class: target,
      vector: vectors[i],
      thumbnail: `${folder}/${i}.jpg`,
    })),
    vote,
  };
}

function isList(value, most) {
  return Array.isArray(value) && value.length <= most;
}

function isPicture(picture, classes) {
  const target = picture?.target;
  const isClass = Number.isInteger(target) && target >= 0 && target < classes.length;
  return typeof picture?.name === "string" && (target === null || isClass);
}

function readVote(json) {
  check(["pictures", "means"].includes(json?.of), "vote.of", json?.of);
  const { of, neighbours, temperature } = json;
  const isCount = Number.isInteger(neighbours) && neighbours > 0;
  check(of === "means" || isCount, "vote.neighbours", neighbours);
  check(temperature > 0 && Number.isFinite(temperature), "vote.temperature", temperature);
  return { of, neighbours, temperature };
}

function readVectors(bytes, pictures, size) {
  const expected = 4 * pictures * size;
  if (bytes.length !== expected) {
    throw new UserError(
      `vectors.bin: expected ${expected} bytes. Received: ${bytes.length}; index it again.`,
    );
  }
  const all = new Float32Array(bytes.buffer, bytes.byteOffset); // browsers are little-endian
  const vectors = Array.from({ length: pictures }, (_, i) => all.subarray(i * size, (i + 1) * size));
  if (vectors.every(isUnit)) return vectors;
  throw new UserError("vectors.bin: expected vectors of length 1; index it again.");
}

function check(isRight, name, value) {
  if (!isRight) {
    throw new UserError(`gallery.json: ${name} cannot be ${shown(value)}; index it again.`);
  }
}
