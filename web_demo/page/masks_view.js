/** Draws masks over pictures, and lists their classes. */

import { made } from "./dom.js";
import { coloursOf } from "./masks.js";
import { percentText } from "./scores.js";

const SIDE = 480; // pixels of the longer side
const MOST_ROWS = 8;
const MOST_SPOKEN = 3;

/** A canvas to lie over a picture; its opacity is that of the page, see style.css. */
export function maskCanvas() {
  const canvas = made("canvas", { className: "mask" });
  canvas.setAttribute("role", "img");
  return canvas;
}

/** How much masks hide of the pictures under them: what the slider says. */
export function setOpacity(slider) {
  document.body.style.setProperty("--opacity", slider.value / 100);
  slider.setAttribute("aria-valuetext", `${slider.value}%`);
}

/** Draws the colours of classes where the model sees the picture. */
export function drawMask(canvas, { mask, width, height, seen }, name) {
  const factor = SIDE / Math.max(width, height);
  canvas.width = Math.max(Math.round(width * factor), 1);
  canvas.height = Math.max(Math.round(height * factor), 1);
  canvas.setAttribute("aria-label", `Mask of ${name}: ${spoken(mask.shares)}`);
  const [x, y] = [canvas.width / width, canvas.height / height];
  const { left, top, right, bottom } = seen;
  const context = canvas.getContext("2d");
  context.imageSmoothingEnabled = false; // between two classes there is no third colour
  context.drawImage(coloured(mask), left * x, top * y, (right - left) * x, (bottom - top) * y);
}

/** The classes of a mask with their colours and shares, the largest first. */
export function legendOf({ shares, labels }) {
  const colours = coloursOf(labels);
  const rows = shares.slice(0, MOST_ROWS).map(({ index, label, share }) => {
    const box = made("i");
    if (colours[index]) box.style.background = `rgb(${colours[index].join(" ")})`;
    const percent = made("span", { textContent: percentText(share) });
    return made("li", {}, box, made("bdi", { textContent: label }), percent);
  });
  const others = shares.slice(MOST_ROWS);
  if (others.length) {
    const share = others.reduce((sum, each) => sum + each.share, 0);
    const text = others.length === 1 ? "1 other class" : `${others.length} other classes`;
    const percent = made("span", { textContent: percentText(share) });
    rows.push(made("li", {}, made("i"), made("span", { textContent: text }), percent));
  }
  return made("ol", { className: "legend" }, ...rows);
}

function spoken(shares) {
  const parts = shares.slice(0, MOST_SPOKEN).map(({ label, share }) => `${label} ${percentText(share)}`);
  return parts.join(", ");
}

/** A pixel for each pixel of the mask. */
function coloured({ height, width, classes, labels }) {
  const colours = coloursOf(labels);
  const pixels = new ImageData(width, height);
  classes.forEach((each, i) => {
    if (colours[each]) pixels.data.set([...colours[each], 255], 4 * i);
  });
  const canvas = new OffscreenCanvas(width, height);
  canvas.getContext("2d").putImageData(pixels, 0, 0);
  return canvas;
}
