/** The PCA picture of a feature map: patches with similar features have similar colours. */

const COLOURS = 3; // red, green and blue
const LEAST_FRACTION = 0.01; // of the variance: scaled by itself, noise would look like structure
const [LOW, HIGH] = [0.02, 0.98]; // quantiles that become 0 and 1
const SEARCHED = 8; // directions
const [NEAR, MOST_STEPS] = [1e-12, 25]; // 1 - |cosine| of a direction in two steps
const ROUNDING = 1e-12; // of the variance

/**
 * The first three principal components of the patches of one picture, as `patch_pca` in Python.
 *
 * @param {Float32Array} map the features of each patch, row by row
 * @param {number} features of a patch
 * @returns {{colours: Float64Array, fractions: number[]}} R, G and B of each patch from 0 to 1; and
 *     of each component that is not left out its fraction of the variance
 */
export function patchColours(map, features) {
  const patches = centred(map, features);
  const variance = total(patches);
  const colours = new Float64Array(COLOURS * patches.length).fill(0.5);
  const fractions = [];
  for (const values of components(patches)) {
    const fraction = dot(values, values) / variance;
    if (fraction < LEAST_FRACTION) break; // the later ones have even less
    scaled(values).forEach((value, i) => (colours[COLOURS * i + fractions.length] = value));
    fractions.push(fraction);
  }
  return { colours, fractions };
}

/** The patches minus their mean. @returns {Float64Array[]} */
function centred(map, features) {
  const count = map.length / features;
  const patches = Array.from({ length: count }, (_, i) =>
    Float64Array.from(map.subarray(i * features, (i + 1) * features)),
  );
  const mean = new Float64Array(features);
  for (const patch of patches) add(mean, patch, 1);
  for (let i = 0; i < features; i++) mean[i] /= count;
  for (const patch of patches) add(patch, mean, -1);
  return patches;
}

/**
 * The components of the largest variance, the largest first, with the patches' values along them.
 *
 * Subspace iteration with more directions than are wanted, because the third and the fourth may
 * have nearly the same variance.
 */
function components(patches) {
  let found = farApart(patches).map((direction) => along(patches, direction));
  for (let step = 0; step < MOST_STEPS; step++) {
    turn(found);
    const next = orthonormal(found.map(({ values }) => combined(patches, values)));
    const isNear = ({ direction }, i) => 1 - Math.abs(dot(direction, next[i])) < NEAR;
    if (found.slice(0, COLOURS).every(isNear)) break;
    found = next.map((direction) => along(patches, direction));
  }
  turn(found);
  return found.slice(0, COLOURS).map(signed);
}

/** Orthogonal directions to begin with: each time that of the patch that is farthest from the others. */
function farApart(patches) {
  const left = patches.map((patch) => patch.slice());
  const directions = [];
  const variance = total(left);
  while (directions.length < SEARCHED && total(left) > ROUNDING * variance) {
    const squares = left.map((patch) => dot(patch, patch));
    const [direction] = orthonormal([left[squares.indexOf(Math.max(...squares))].slice()]);
    for (const patch of left) add(patch, direction, -dot(patch, direction));
    directions.push(direction);
  }
  return directions;
}

function along(patches, direction) {
  return { direction, values: Float64Array.from(patches, (patch) => dot(patch, direction)) };
}

/** Turns directions within the space that they span, until their values do not correlate. */
function turn(found) {
  for (let i = 0; i < found.length; i++) {
    for (let j = i + 1; j < found.length; j++) {
      const [a, b] = [found[i], found[j]];
      const difference = dot(a.values, a.values) - dot(b.values, b.values);
      const angle = Math.atan2(2 * dot(a.values, b.values), difference) / 2; // a has more variance
      rotate(a.direction, b.direction, angle);
      rotate(a.values, b.values, angle);
    }
  }
}

function rotate(a, b, angle) {
  const [cosine, sine] = [Math.cos(angle), Math.sin(angle)];
  for (let i = 0; i < a.length; i++) {
    [a[i], b[i]] = [cosine * a[i] + sine * b[i], cosine * b[i] - sine * a[i]];
  }
}

function combined(patches, values) {
  const sum = new Float64Array(patches[0].length);
  patches.forEach((patch, i) => add(sum, patch, values[i]));
  return sum;
}

/** Makes vectors orthogonal to those before them, and of length 1. */
function orthonormal(vectors) {
  vectors.forEach((vector, i) => {
    for (const earlier of vectors.slice(0, i)) add(vector, earlier, -dot(vector, earlier));
    const length = Math.sqrt(dot(vector, vector));
    for (let j = 0; j < vector.length; j++) vector[j] /= length;
  });
  return vectors;
}

/** The entry of the largest magnitude is positive. */
function signed({ direction, values }) {
  const largest = direction.reduce((most, each) => (Math.abs(each) > Math.abs(most) ? each : most), 0);
  return values.map((value) => Math.sign(largest) * value);
}

function total(patches) {
  return patches.reduce((sum, patch) => sum + dot(patch, patch), 0);
}

function scaled(values) {
  const sorted = values.slice().sort();
  const [low, high] = [quantile(sorted, LOW), quantile(sorted, HIGH)];
  const range = high > low ? high - low : 1;
  return values.map((value) => Math.min(Math.max((value - low) / range, 0), 1));
}

/** Linear between the ranks, as in NumPy. */
function quantile(sorted, fraction) {
  const rank = fraction * (sorted.length - 1);
  const below = Math.floor(rank);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (rank - below);
}

function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; i++) sum += a[i] * b[i];
  return sum;
}

function add(sum, vector, factor) {
  for (let i = 0; i < sum.length; i++) sum[i] += factor * vector[i];
}
