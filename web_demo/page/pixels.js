/** Pixels of picture files and of the camera. */

import { UserError } from "./errors.js";
import { browserTurnsWebp, turn, webpOrientation } from "./exif.js";
import { unreadable } from "./formats.js";

const MOST_PIXELS = 110_000_000; // as in Python
const BAND = 2 ** 20; // pixels that are read at once: browsers limit the size of a canvas

/**
 * Decodes a picture file, turned upright as its EXIF tag says.
 *
 * Colours are not converted to sRGB: Python does not do it either.
 *
 * @param {Blob} file
 * @returns {Promise<ImageBitmap>} to be closed by the caller
 * @throws {UserError}
 */
export async function decode(file) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(file, {
      imageOrientation: "from-image",
      colorSpaceConversion: "none",
    });
  } catch {
    // A file that was deleted since cannot be read at all.
    const header = await file.slice(0, 512).arrayBuffer().catch(() => new ArrayBuffer(0));
    throw new UserError(unreadable(new Uint8Array(header)));
  }
  if (bitmap.width * bitmap.height <= MOST_PIXELS) return upright(bitmap, file);
  bitmap.close();
  throw new UserError(`this picture has more than ${MOST_PIXELS.toLocaleString("en")} pixels.`);
}

/** The bitmap of a WebP file that the browser did not turn, turned; any other as it is. */
async function upright(bitmap, file) {
  const orientation = webpOrientation(new Uint8Array(await file.arrayBuffer()));
  if (orientation === 1 || (await browserTurnsWebp())) return bitmap;
  const stored = readPixels(bitmap, bitmap.width, bitmap.height);
  bitmap.close();
  return bitmapOf(turn(stored, orientation));
}

/**
 * The pixels of a bitmap or a video; transparent ones are blended with white.
 *
 * @returns {{width: number, height: number, data: Uint8Array}} R, G and B, row by row
 */
export function readPixels(source, width, height) {
  const rows = Math.min(height, Math.max(Math.floor(BAND / width), 1));
  const canvas = new OffscreenCanvas(width, rows);
  const context = canvas.getContext("2d", { alpha: false, willReadFrequently: true });
  context.fillStyle = "white";
  const data = new Uint8Array(width * height * 3);
  for (let top = 0; top < height; top += rows) {
    const count = Math.min(rows, height - top);
    context.fillRect(0, 0, width, rows);
    context.drawImage(source, 0, top, width, count, 0, 0, width, count);
    copyColours(context.getImageData(0, 0, width, count).data, data, top * width * 3);
  }
  return { width, height, data };
}

/** A small JPEG of a bitmap as a data URL; transparent pixels are blended with white. */
export function thumbnailOf(bitmap, side = 96) {
  const factor = Math.min(1, side / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(Math.round(bitmap.width * factor), 1);
  canvas.height = Math.max(Math.round(bitmap.height * factor), 1);
  const context = canvas.getContext("2d", { alpha: false });
  context.imageSmoothingQuality = "high";
  context.fillStyle = "white";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/jpeg", 0.8);
}

/** A bitmap of R, G and B, row by row. */
export function bitmapOf({ width, height, data }) {
  const pixels = new ImageData(width, height);
  for (let from = 0, to = 0; from < data.length; from += 3, to += 4) {
    pixels.data.set([data[from], data[from + 1], data[from + 2], 255], to);
  }
  return createImageBitmap(pixels);
}

function copyColours(rgba, to, start) {
  let at = start;
  for (let from = 0; from < rgba.length; from += 4) {
    to[at++] = rgba[from];
    to[at++] = rgba[from + 1];
    to[at++] = rgba[from + 2];
  }
}
