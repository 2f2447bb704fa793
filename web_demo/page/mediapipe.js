/**
 * MediaPipe's resize, for bundles whose `interpolation` is "mediapipe": bilinear, from corner to
 * corner of the whole image, without smoothing. `keras_vit/data/mediapipe.py` explains it; pixels
 * are equal bit for bit, because the same operations are done in the same order.
 */

import { roundHalfToEven } from "./rounding.js";

const UNIT = 32; // places are in 1/32 of a pixel
const BLOCK = 1024; // pixels that OpenCV computes at once
const BLOCK_ROWS = 16;

/**
 * @param {{width: number, height: number, data: Uint8Array}} image R, G and B, row by row
 * @param {object} input `input` of a description (bundle.js)
 * @returns {Uint8ClampedArray} input.height x input.width x 3 values
 */
export function resizeAsMediaPipe(image, input) {
  const warp = projection(image.height, image.width, input);
  const block = Math.min(Math.trunc(BLOCK / Math.min(BLOCK_ROWS, input.height)), input.width);
  const result = new Uint8ClampedArray(input.height * input.width * 3);
  let to = 0;
  for (let y = 0; y < input.height; y++) {
    for (let x = 0; x < input.width; x++) {
      const within = x % block;
      const start = x - within;
      const whole = warp.whole - (warp.left * start + warp.up * y);
      const scale = UNIT / (whole - warp.left * within);
      const column = roundHalfToEven(scale * (warp.across * start + warp.across * within));
      const row = roundHalfToEven(scale * (warp.down * y));
      blend(image, column, row, result, to);
      to += 3;
    }
  }
  return result;
}

/** The colours at a place in units of 1 / UNIT of a pixel; pixels outside are those of the edge. */
function blend({ width, height, data }, column, row, result, to) {
  const x = column % UNIT;
  const y = row % UNIT;
  const left = Math.min(Math.trunc(column / UNIT), width - 1);
  const top = Math.min(Math.trunc(row / UNIT), height - 1);
  const right = Math.min(left + 1, width - 1);
  const bottom = Math.min(top + 1, height - 1);
  const above = top * width;
  const below = bottom * width;
  for (let channel = 0; channel < 3; channel++) {
    const level = (place) => data[place * 3 + channel];
    const upper = level(above + left) * (UNIT - x) + level(above + right) * x;
    const lower = level(below + left) * (UNIT - x) + level(below + right) * x;
    const blended = upper * (UNIT - y) + lower * y;
    result[to + channel] = Math.trunc((blended + (UNIT * UNIT) / 2) / (UNIT * UNIT));
  }
}

/** From output pixels to those of an image, with OpenCV's rounding errors. */
function projection(height, width, input) {
  const oneDown = height * (1 / height);
  const oneAcross = width * (1 / width);
  const tall = height * input.height;
  const wide = width * input.width;
  const lostDown = input.height - oneDown * input.height;
  const lostAcross = input.width - oneAcross * input.width;
  const moreDown = oneDown * tall - tall;
  const moreAcross = oneAcross * wide - wide;
  const factor = moreAcross * (1 / (width * input.height));
  const q = (lostAcross + factor * lostDown) / (factor * moreDown - height * input.width);
  const p = (moreDown * q - lostDown) / (width * input.height);
  const diagonalDown = (input.height + tall * q) / height;
  const diagonalAcross = (input.width + wide * p) / width;
  const area = diagonalAcross * diagonalDown;
  const inverse = 1 / area;
  return {
    across: diagonalDown * inverse,
    down: diagonalAcross * inverse,
    left: diagonalDown * p * inverse,
    up: diagonalAcross * q * inverse,
    whole: area * inverse,
  };
}
