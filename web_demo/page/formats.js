/** The formats of picture files that browsers cannot read. */

const HEIC = ["heic", "heix", "heim", "heis", "hevc", "hevx", "mif1", "msf1"]; // as in Python
const AVIF = ["avif", "avis"]; // may have the brand mif1, too

/**
 * What to tell the user of a file that the browser cannot decode.
 *
 * @param {Uint8Array} header the first bytes of the file; its name may say something else
 */
export function unreadable(header) {
  if (!isHeic(header)) return "this is not a picture that the browser can read.";
  return (
    "this is a HEIC picture, which this browser cannot read; save it as JPEG. An iPhone takes JPEG " +
    "pictures after Settings > Camera > Formats > Most Compatible."
  );
}

function isHeic(header) {
  const text = String.fromCharCode(...header);
  if (text.slice(4, 8) !== "ftyp") return false;
  // The list of brands starts with its length; the first may be a general one.
  const length = new DataView(header.buffer, header.byteOffset).getUint32(0);
  const brands = [text.slice(8, 12), ...(text.slice(16, length).match(/.{4}/gs) ?? [])];
  return !brands.some((brand) => AVIF.includes(brand)) && brands.some((brand) => HEIC.includes(brand));
}
