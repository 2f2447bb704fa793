/** Compares vectors of pictures: which are the most similar, and what class they vote for. */

import { topK } from "./scores.js";

/** Whether a vector has length 1, but for rounding. */
export function isUnit(vector) {
  return Math.abs(dot(vector, vector) - 1) < 2e-3;
}

/** A vector divided by its length, in doubles; one of zeros stays as it is. */
export function unit(vector) {
  const length = Math.sqrt(dot(vector, vector));
  return Float64Array.from(vector, (value) => (length ? value / length : 0));
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

/** The number of pictures of each of so many classes. */
export function sizesOf(pictures, classes) {
  const sizes = new Array(classes).fill(0);
  for (const { class: index } of pictures) if (index !== null) sizes[index]++;
  return sizes;
}

/** The mean vector of each class that has pictures, divided by its length. */
export function meansOf(pictures) {
  const sums = new Map(); // a sum has the direction of its mean
  for (const { class: index, vector } of pictures) {
    if (index === null) continue;
    if (!sums.has(index)) sums.set(index, new Float64Array(vector.length));
    const sum = sums.get(index);
    for (let i = 0; i < sum.length; i++) sum[i] += vector[i];
  }
  return Array.from(sums, ([index, sum]) => ({ class: index, vector: unit(sum) }));
}

/**
 * The most similar pictures of a collection (added.js), and the classes that they vote for.
 *
 * @param {Float32Array} vector of a picture, of any length
 * @returns {{similar: {picture, similarity: number}[], predictions: {label, probability}[]}} the
 *     best come first; of equal ones, the first of the collection
 */
export function lookUp(vector, collection, k = 5) {
  const { classes, pictures, sizes, vote } = collection;
  const own = unit(vector);
  const similarities = pictures.map((picture) => dot(picture.vector, own));
  const votes =
    vote.of === "means"
      ? collection.means.map((mean) => ({ class: mean.class, similarity: dot(mean.vector, own), size: 1 }))
      : neighbours(pictures, similarities, vote.neighbours).map((each) => ({ ...each, size: sizes[each.class] }));
  return {
    similar: topK(similarities, k).map((i) => ({
      picture: pictures[i],
      similarity: similarities[i],
    })),
    predictions: shares(votes, vote.temperature)
      .slice(0, k)
      .map(({ class: index, share }) => ({ label: classes[index], probability: share })),
  };
}

/** The most similar pictures that have a class. */
function neighbours(pictures, similarities, count) {
  const counted = similarities.map((each, i) => (pictures[i].class === null ? -Infinity : each));
  return topK(counted, count)
    .filter((i) => pictures[i].class !== null)
    .map((i) => ({ class: pictures[i].class, similarity: similarities[i] }));
}

/**
 * The shares of the classes in the weights exp(similarity / temperature) / size, the largest first.
 *
 * @param {{class: number, similarity: number, size: number}[]} votes of a class of so many pictures
 */
export function shares(votes, temperature) {
  const largest = votes.reduce((most, { similarity }) => Math.max(most, similarity), -Infinity);
  const weights = new Map();
  let sum = 0;
  for (const { class: index, similarity, size } of votes) {
    const weight = Math.exp((similarity - largest) / temperature) / size; // or exp could overflow
    weights.set(index, (weights.get(index) ?? 0) + weight);
    sum += weight;
  }
  return Array.from(weights, ([index, weight]) => ({ class: index, share: weight / sum })).sort(
    (a, b) => b.share - a.share || a.class - b.class,
  );
}
