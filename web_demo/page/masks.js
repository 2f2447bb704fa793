/** From a segmenter's output to the class of each pixel of what the model sees. */

const BACKGROUND = "background"; // the name of the class that has no colour

/**
 * The class of each pixel of the model's input, as `keras_vit.decode_masks` in Python.
 *
 * Scores are resized bilinearly, with the centres of pixels half a pixel from their edges, before
 * the highest one is taken; classes are those of the nearest pixel.
 *
 * @param {Float32Array} values scores (rows, columns, classes), or classes (rows, columns)
 * @param {object} output of a description (bundle.js)
 * @param {{height: number, width: number}} input
 * @returns {{height, width, classes: Uint8Array}}
 */
export function maskOf(values, output, { height, width }) {
  const best = bestOf(values, output);
  const vertical = positions(height, output.rows);
  const horizontal = positions(width, output.columns);
  const classAt = output.kind === "scores" ? bilinear(values, best, output) : nearest(best, output);
  const classes = new Uint8Array(height * width);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) classes[y * width + x] = classAt(vertical[y], horizontal[x]);
  }
  return { height, width, classes };
}

/** The class of each value of the file's own output; of equal scores the first. */
export function bestOf(values, { kind, classes }) {
  if (kind === "class_map") return Uint8Array.from(values);
  const best = new Uint8Array(values.length / classes);
  for (let i = 0; i < best.length; i++) best[i] = highest(classes, (c) => values[i * classes + c]);
  return best;
}

/** A class of a class map that is none of the bundle's; undefined if there is none. */
export function strangeClass(values, { kind, classes }) {
  return kind === "class_map" ? values.find((value) => value >= classes) : undefined;
}

/** The classes that a mask has, the largest first, and their shares of the pixels. */
export function sharesOf({ classes }, labels) {
  const counts = new Array(labels.length).fill(0);
  for (const each of classes) counts[each]++;
  const found = [...counts.keys()].filter((i) => counts[i] > 0);
  found.sort((a, b) => counts[b] - counts[a] || a - b);
  return found.map((i) => ({ index: i, label: labels[i], share: counts[i] / classes.length }));
}

/**
 * Red, green and blue of each class, from 0 to 255, as in the masks of PASCAL VOC; null of the
 * background.
 *
 * The bits of a class, from the lowest on, are in turn the highest bits of red, green and blue that
 * are left. Black, the first, is only for a background.
 */
export function coloursOf(labels) {
  const first = labels[0] === BACKGROUND ? 0 : 1;
  return labels.map((label, i) => (label === BACKGROUND ? null : colourOf(first + i)));
}

function colourOf(number) {
  const colour = [0, 0, 0];
  for (let bit = 0; bit < 24; bit++) colour[bit % 3] |= ((number >> bit) & 1) << (7 - Math.floor(bit / 3));
  return colour;
}

/** Of the centre of each of `size` pixels its two neighbours of `count`, and the second one's weight. */
function positions(size, count) {
  return Array.from({ length: size }, (_, i) => {
    const at = Math.min(Math.max(((i + 0.5) * count) / size - 0.5, 0), count - 1);
    const below = Math.floor(at);
    return { below, above: Math.min(below + 1, count - 1), weight: at - below };
  });
}

function nearest(best, { columns }) {
  const near = ({ below, above, weight }) => (weight < 0.5 ? below : above);
  return (row, column) => best[near(row) * columns + near(column)];
}

function bilinear(scores, best, { columns, classes }) {
  const mixed = (one, other, weight) => one + (other - one) * weight;
  return (row, column) => {
    const a = row.below * columns + column.below;
    const b = row.below * columns + column.above;
    const c = row.above * columns + column.below;
    const d = row.above * columns + column.above;
    // A class that is the highest one in all four neighbours is it between them, too.
    if (best[a] === best[b] && best[a] === best[c] && best[a] === best[d]) return best[a];
    return highest(classes, (i) => {
      const upper = mixed(scores[a * classes + i], scores[b * classes + i], column.weight);
      const lower = mixed(scores[c * classes + i], scores[d * classes + i], column.weight);
      return mixed(upper, lower, row.weight);
    });
  };
}

/** The index of the largest of `count` values, of equal ones the first. */
function highest(count, valueOf) {
  let [best, most] = [0, valueOf(0)];
  for (let i = 1; i < count; i++) {
    const value = valueOf(i);
    if (value > most) [best, most] = [i, value];
  }
  return best;
}
