/** The orientation of WebP files, which not every browser applies. */

/** A WebP of 2 x 1 pixels that is 1 x 2 upright. */
const PROBE =
  "UklGRk4AAABXRUJQVlA4WAoAAAAIAAAAAQAAAAAAVlA4TA4AAAAvAQAAAAcQEf0PRET/A0VYSUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAA=";

/** How the stored picture becomes the upright one: it is transposed first, then reversed. */
const TURNS = {
  2: { transposed: false, columns: true, rows: false },
  3: { transposed: false, columns: true, rows: true },
  4: { transposed: false, columns: false, rows: true },
  5: { transposed: true, columns: false, rows: false },
  6: { transposed: true, columns: true, rows: false },
  7: { transposed: true, columns: true, rows: true },
  8: { transposed: true, columns: false, rows: true },
};

/** The EXIF orientation of a WebP file; 1, upright, if it has none or is another file. */
export function webpOrientation(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (textAt(view, 0) !== "RIFF" || textAt(view, 8) !== "WEBP") return 1;
  for (let at = 12; at + 8 <= view.byteLength;) {
    const size = view.getUint32(at + 4, true);
    if (textAt(view, at) === "EXIF") {
      const end = Math.min(at + 8 + size, view.byteLength);
      return tiffOrientation(new DataView(bytes.buffer, bytes.byteOffset + at + 8, end - at - 8));
    }
    at += 8 + size + (size % 2);
  }
  return 1;
}

/** Turns an image {width, height, data} upright; values that do not exist change nothing. */
export function turn(image, orientation) {
  const how = TURNS[orientation];
  if (!how) return image;
  const { width: stored, data: from } = image;
  const [width, height] = how.transposed
    ? [image.height, image.width]
    : [image.width, image.height];
  const data = new Uint8Array(from.length);
  let at = 0;
  for (let y = 0; y < height; y++) {
    const row = how.rows ? height - 1 - y : y;
    for (let x = 0; x < width; x++) {
      const column = how.columns ? width - 1 - x : x;
      const source = 3 * (how.transposed ? column * stored + row : row * stored + column);
      data[at++] = from[source];
      data[at++] = from[source + 1];
      data[at++] = from[source + 2];
    }
  }
  return { width, height, data };
}

let applied = null;

/** Whether this browser turns WebP files itself. */
export function browserTurnsWebp() {
  applied ??= probe();
  return applied;
}

async function probe() {
  const bytes = Uint8Array.from(atob(PROBE), (character) => character.charCodeAt(0));
  const bitmap = await createImageBitmap(new Blob([bytes]));
  return bitmap.height === 2;
}

/** The value of the tag 0x0112 in a TIFF header and its first directory. */
function tiffOrientation(view) {
  const start = textAt(view, 0) === "Exif" ? 6 : 0;
  if (view.byteLength < start + 8) return 1;
  const isLittle = view.getUint16(start) === 0x4949;
  const directory = start + view.getUint32(start + 4, isLittle);
  if (directory + 2 > view.byteLength) return 1;
  const count = view.getUint16(directory, isLittle);
  for (let i = 0; i < count; i++) {
    const entry = directory + 2 + 12 * i;
    if (entry + 12 > view.byteLength) return 1;
    if (view.getUint16(entry, isLittle) === 0x0112) return view.getUint16(entry + 8, isLittle);
  }
  return 1;
}

function textAt(view, start) {
  if (start + 4 > view.byteLength) return "";
  return String.fromCharCode(...[0, 1, 2, 3].map((i) => view.getUint8(start + i)));
}
