/** The classes that the user adds: how they join a gallery, and how this browser keeps them. */

import { fromBase64, toBase64 } from "./base64.js";
import { isUnit, meansOf, sizesOf } from "./similar.js";

const NOT_KEPT =
  "The browser cannot store more for this page: what was added works until the page is closed. Remove a class to store the others.";
const WITHOUT_GALLERY = { classes: [], pictures: [], vote: { of: "means", temperature: 0.07 } };

/**
 * @typedef {{name: string, vector: Float32Array, thumbnail: string}} Picture its vector has length
 *     1; the thumbnail is a data URL
 * @typedef {{name: string, pictures: Picture[]}} Added a class, and the pictures it was given
 */

/** @param {Added[]} added @returns {Added[]} with more pictures of a class, new or not */
export function withPictures(added, name, pictures) {
  const isNew = !added.some((each) => each.name === name);
  return [...added, ...(isNew ? [{ name, pictures: [] }] : [])].map((each) =>
    each.name === name ? { name, pictures: [...each.pictures, ...pictures] } : each,
  );
}

/**
 * What pictures are compared with: those of a gallery, and then the added ones.
 *
 * @param {object | null} gallery the result of `readGallery`
 * @param {Added[]} added
 * @returns {object} as a gallery, with the `sizes` of classes, and `means` if these vote
 */
export function join(gallery, added) {
  const { classes, pictures, vote } = gallery ?? WITHOUT_GALLERY;
  const names = [...classes];
  const all = [...pictures];
  for (const each of added) {
    if (!names.includes(each.name)) names.push(each.name);
    const index = names.indexOf(each.name);
    for (const picture of each.pictures) all.push({ ...picture, class: index });
  }
  const means = vote.of === "means" ? meansOf(all) : [];
  return { classes: names, pictures: all, sizes: sizesOf(all, names.length), vote, means };
}

const keyOf = (sha256) => `keras-vit added ${sha256}`;

/**
 * What this browser keeps for a model. A damaged entry is removed.
 *
 * @param {string} sha256 of the model
 * @param {number} size of its vectors
 * @returns {Added[]}
 */
export function readAdded(sha256, size) {
  try {
    const entry = localStorage.getItem(keyOf(sha256));
    if (entry === null) return [];
    const added = parseAdded(entry, size);
    if (added === null) localStorage.removeItem(keyOf(sha256));
    return added ?? [];
  } catch {
    return []; // the browser allows no storage
  }
}

/** Keeps what was added. @returns {string | null} the problem, if the browser does not keep it */
export function storeAdded(sha256, added) {
  const classes = added.map(({ name, pictures }) => ({
    name,
    pictures: pictures.map((each) => ({ ...each, vector: encoded(each.vector) })),
  }));
  try {
    if (classes.length === 0) localStorage.removeItem(keyOf(sha256));
    else localStorage.setItem(keyOf(sha256), JSON.stringify({ format: 1, classes }));
  } catch {
    return NOT_KEPT;
  }
  return null;
}

/** @returns {Added[] | null} null if the entry is damaged */
export function parseAdded(entry, size) {
  try {
    const { format, classes } = JSON.parse(entry);
    const added = classes.map(({ name, pictures }) => ({
      name,
      pictures: pictures.map((each) => ({ ...each, vector: decoded(each.vector) })),
    }));
    const isOnce = new Set(added.map(({ name }) => name)).size === added.length;
    return format === 1 && isOnce && added.every((each) => isAdded(each, size)) ? added : null;
  } catch {
    return null;
  }
}

function isAdded({ name, pictures }, size) {
  return isText(name) && pictures.length > 0 && pictures.every((each) => isPicture(each, size));
}

function isPicture({ name, vector, thumbnail }, size) {
  const isImage = isText(thumbnail) && /^data:image\/jpeg;base64,[\w+/]+=*$/.test(thumbnail);
  return isText(name) && isImage && vector.length === size && isUnit(vector);
}

function isText(value) {
  return typeof value === "string" && value !== "";
}

function encoded(vector) {
  return toBase64(new Uint8Array(vector.buffer, vector.byteOffset, vector.byteLength));
}

function decoded(base64) {
  return new Float32Array(fromBase64(base64).buffer);
}
