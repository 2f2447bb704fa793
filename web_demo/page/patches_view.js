/** Draws the features of patches as colours, where the patches are in the picture. */

import { gridText, made } from "./dom.js";

const SIDE = 480; // pixels of the longer side
const DETAILS =
  "The colours are the first three principal components of the features of this picture’s " +
  "patches: red, green and blue, each from its 2nd to its 98th percentile. A component with less " +
  "than 1% of the variance is left out. Colours of two pictures cannot be compared.";

/** What stays while a camera's frames change: the canvas, and the details, which may be open. */
export function patchesView(name) {
  const canvas = made("canvas");
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `The features of ${name} as colours`);
  const text = made("p", { textContent: DETAILS });
  return { canvas, details: made("details", {}, made("summary", { textContent: "Details" }), text) };
}

/** Draws a flat cell for each patch; around what the model sees, the canvas stays empty. */
export function drawPatches(canvas, { patches, width, height, seen }) {
  const factor = SIDE / Math.max(width, height);
  canvas.width = Math.max(Math.round(width * factor), 1);
  canvas.height = Math.max(Math.round(height * factor), 1);
  const [x, y] = [canvas.width / width, canvas.height / height];
  const { left, top, right, bottom } = seen;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false;
  const box = [left * x, top * y, (right - left) * x, (bottom - top) * y];
  context.drawImage(cellsOf(patches), ...box);
}

/** A pixel for each patch. */
function cellsOf({ colours, rows, columns }) {
  const cells = new ImageData(columns, rows);
  for (let from = 0, to = 0; from < colours.length; from += 3, to += 4) {
    const [red, green, blue] = colours.subarray(from, from + 3);
    cells.data.set([255 * red, 255 * green, 255 * blue, 255], to);
  }
  const canvas = new OffscreenCanvas(columns, rows);
  canvas.getContext("2d").putImageData(cells, 0, 0);
  return canvas;
}

export function captionOf({ patches }) {
  return made("p", { className: "note", textContent: meaningOf(patches) });
}

/** What a picture of patches says. */
export function meaningOf({ rows, columns, fractions }) {
  const grid = gridText(rows, columns);
  if (fractions.length === 0) return `${grid}; no component has 1% of the variance.`;
  const percents = fractions.map((each) => `${Math.round(100 * each)}%`);
  const held = [percents.slice(0, -1).join(", "), percents.at(-1)].filter(Boolean).join(" and ");
  const colours = percents.length === 1 ? "the colour holds" : "the colours hold";
  return `Similar colours: similar features. ${grid}; ${colours} ${held} of the variance.`;
}
