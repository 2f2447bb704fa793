/** What Python makes of images and scores; the Android app's tests read the same files. */

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const DEMO = new URL("../../android_demo/", import.meta.url);

/** A fixture that tests/test_android_fixtures.py holds to Python. */
export function fixture(name) {
  return readJson(new URL(`core/src/test/resources/fixtures/${name}.json`, DEMO));
}

/** model.json and golden.json of a bundle of trained digits. */
export function digits(precision) {
  const folder = new URL(`testing/models/digits-${precision}/`, DEMO);
  return ["model.json", "golden.json"].map((file) => readJson(new URL(file, folder)));
}

/** model.json and golden.json of a bundle that gives a feature map of digits. */
export function digitsMap() {
  const folder = new URL("testing/feature_maps/digits-map/", DEMO);
  return ["model.json", "golden.json"].map((file) => readJson(new URL(file, folder)));
}

/** model.json and golden.json of the app's segmenter of scenes. */
export function scenes() {
  const folder = new URL("app/src/main/assets/bundles/scenes-int8/", DEMO);
  return ["model.json", "golden.json"].map((file) => readJson(new URL(file, folder)));
}

/** The pixels of `_image` in android_demo/tools/make_fixtures.py. */
export function noiseImage({ width, height, extreme }) {
  const data = new Uint8Array(width * height * 3);
  let state = 1000 * width + height;
  for (let i = 0; i < data.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    data[i] = state >>> 24;
  }
  return { width, height, data: extreme ? data.map((value) => (value < 128 ? 0 : 255)) : data };
}

/** The bytes of a typed array as fixtures hold them: in base64, or their hash. */
export function stored(array, like) {
  const bytes = Buffer.from(array.buffer, array.byteOffset, array.byteLength);
  if ("base64" in like) return { base64: bytes.toString("base64") };
  return { sha256: createHash("sha256").update(bytes).digest("hex") };
}

function readJson(url) {
  return JSON.parse(readFileSync(url, "utf8"));
}
