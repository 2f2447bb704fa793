/** From an image of any size to the file's input, equal to `keras_vit.preprocess` bit for bit. */

import { resizeAsMediaPipe } from "./mediapipe.js";
import { roundHalfToEven } from "./rounding.js";

/** Fractional bits of the weights: 8 bits are for the pixel, and sums may exceed it twofold. */
const BITS = 22;
const HALF = 1 << (BITS - 1);

/**
 * @param {{width: number, height: number, data: Uint8Array}} image R, G and B, row by row
 * @param {object} input `input` of a description (bundle.js)
 * @returns {Float32Array | Uint8Array} height x width x input.channels values
 */
export function preprocess(image, input) {
  return toTensor(resize(image, input), input);
}

/**
 * The part of an image that the model sees, in pixels of the image; float32 as in Pillow.
 *
 * @returns {{left: number, top: number, right: number, bottom: number}}
 */
export function cropBox(width, height, input) {
  if (input.crop === null) return { left: 0, top: 0, right: width, bottom: height };
  // Other libraries resize the image to whole pixels, with the short side size / crop, and cut the
  // middle out at whole pixels. This is the part that they cut out.
  const columns = Math.floor(input.width / input.crop + 0.5);
  const rows = Math.floor(input.height / input.crop + 0.5);
  const resizedWidth = Math.max(columns, Math.floor((rows * width) / height));
  const resizedHeight = Math.max(rows, Math.floor((columns * height) / width));
  const left = Math.floor((resizedWidth - input.width) / 2);
  const top = Math.floor((resizedHeight - input.height) / 2);
  return {
    left: Math.fround((left * width) / resizedWidth),
    top: Math.fround((top * height) / resizedHeight),
    right: Math.fround(((left + input.width) * width) / resizedWidth),
    bottom: Math.fround(((top + input.height) * height) / resizedHeight),
  };
}

/**
 * Crops and resizes by Pillow's integer arithmetic, in two passes with rounding to 8 bits in
 * between: the width, then the height.
 *
 * @returns {Uint8ClampedArray} input.height x input.width x 3 values
 */
export function resize(image, input) {
  if (input.interpolation === "mediapipe") return resizeAsMediaPipe(image, input);
  const box = cropBox(image.width, image.height, input);
  const columns = taps(image.width, box.left, box.right, input.width, input.interpolation);
  const rows = taps(image.height, box.top, box.bottom, input.height, input.interpolation);
  const last = input.height - 1;
  // Only rows that the second pass reads.
  const narrowed = narrow(
    image,
    columns,
    rows[0].first,
    rows[last].first + rows[last].weights.length,
  );
  return shorten(narrowed, rows, rows[0].first, input.width * 3);
}

function narrow(image, columns, firstRow, endRow) {
  const result = new Uint8ClampedArray((endRow - firstRow) * columns.length * 3);
  let at = 0;
  for (let y = firstRow; y < endRow; y++) {
    const row = y * image.width * 3;
    for (const { first, weights } of columns) {
      let from = row + first * 3;
      let red = HALF;
      let green = HALF;
      let blue = HALF;
      for (const weight of weights) {
        red += image.data[from] * weight;
        green += image.data[from + 1] * weight;
        blue += image.data[from + 2] * weight;
        from += 3;
      }
      result[at++] = red >> BITS;
      result[at++] = green >> BITS;
      result[at++] = blue >> BITS;
    }
  }
  return result;
}

function shorten(narrowed, rows, firstRow, rowSize) {
  const result = new Uint8ClampedArray(rows.length * rowSize);
  const sums = new Int32Array(rowSize);
  rows.forEach(({ first, weights }, y) => {
    sums.fill(HALF);
    let from = (first - firstRow) * rowSize;
    for (const weight of weights) {
      for (let i = 0; i < rowSize; i++) sums[i] += narrowed[from + i] * weight;
      from += rowSize;
    }
    for (let i = 0; i < rowSize; i++) result[y * rowSize + i] = sums[i] >> BITS;
  });
  return result;
}

/** For each output pixel of a line: its first input pixel, and the weights from there on. */
function taps(size, start, end, places, interpolation) {
  // Pillow subtracts in float32 and divides in float64.
  const scale = Math.fround(end - start) / places;
  if (interpolation === "nearest") return nearestTaps(start, scale, places);
  const { filter, radius } = FILTERS[interpolation];
  const widened = Math.max(scale, 1);
  const support = radius * widened;
  return Array.from({ length: places }, (_, place) => {
    const centre = start + (place + 0.5) * scale;
    const first = Math.max(Math.trunc(centre - support + 0.5), 0);
    const count = Math.min(Math.trunc(centre + support + 0.5), size) - first;
    const exact = Array.from({ length: count }, (_, i) =>
      filter(Math.abs((first + i - centre + 0.5) * (1 / widened))),
    );
    const sum = exact.reduce((total, weight) => total + weight, 0);
    return {
      first,
      weights: Int32Array.from(exact, (weight) => fixed(sum ? weight / sum : weight)),
    };
  });
}

function nearestTaps(start, scale, places) {
  // Summed step by step as in Pillow, because rounding decides at the edge of a pixel.
  let position = start + scale * 0.5;
  return Array.from({ length: places }, () => {
    const first = Math.trunc(position);
    position += scale;
    return { first, weights: Int32Array.of(1 << BITS) };
  });
}

const FILTERS = {
  bilinear: { radius: 1, filter: (x) => (x < 1 ? 1 - x : 0) },
  bicubic: { radius: 2, filter: cubic },
};

function cubic(x) {
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

function fixed(weight) {
  return Math.trunc(weight * (1 << BITS) + (weight < 0 ? -0.5 : 0.5));
}

/** RGB from 0 to 255 as the file takes it: (pixel - mean) / scale in float32, or quantised. */
export function toTensor(pixels, input) {
  const { channels } = input;
  const levels = channels === 1 ? grey(pixels) : pixels;
  // A pixel has only 256 values a channel: what becomes of each is computed once.
  const table = Array.from({ length: channels }, (_, channel) => {
    const mean = Math.fround(input.mean[channel]);
    const scale = Math.fround(input.scale[channel]);
    return Float32Array.from({ length: 256 }, (_, level) => Math.fround(level - mean) / scale);
  });
  const tensor = input.dtype === "float32" ? Float32Array : Uint8Array;
  const values = input.dtype === "float32" ? table : table.map((row) => quantize(row, input));
  const result = new tensor(levels.length);
  for (let channel = 0; channel < channels; channel++) {
    const row = values[channel];
    for (let i = channel; i < levels.length; i += channels) result[i] = row[levels[i]];
  }
  return result;
}

/** The luma of R, G and B, rounded as in Pillow. */
function grey(pixels) {
  return Uint8Array.from({ length: pixels.length / 3 }, (_, i) => {
    const [red, green, blue] = pixels.subarray(3 * i, 3 * i + 3);
    return (red * 19595 + green * 38470 + blue * 7471 + 0x8000) >> 16;
  });
}

/** Floats as integers of the input's type; halves are rounded to even, as in NumPy. */
export function quantize(values, input) {
  const { scale, zeroPoint } = input.quantization ?? { scale: 1, zeroPoint: 0 };
  const round = input.quantization === null ? Math.trunc : roundHalfToEven;
  return Uint8ClampedArray.from(values, (value) =>
    round(Math.fround(Math.fround(value / Math.fround(scale)) + zeroPoint)),
  );
}
