import assert from "node:assert/strict";
import { test } from "node:test";

import { turn, webpOrientation } from "../page/exif.js";
import { fixture, noiseImage, stored } from "./fixtures.js";

test("every orientation turns a picture as Pillow does it", () => {
  const cases = fixture("orientations");
  assert.equal(cases.length, 10);
  for (const { exif, pixels, width, height } of cases) {
    const actual = turn(noiseImage({ width: 5, height: 3 }), exif);
    assert.deepEqual([actual.width, actual.height], [width, height]);
    assert.deepEqual(stored(actual.data, pixels), pixels, `orientation ${exif}`);
  }
});

// 2 x 1 pixels by Pillow, with the orientation 6.
const WEBP = Buffer.from(
  "UklGRk4AAABXRUJQVlA4WAoAAAAIAAAAAQAAAAAAVlA4TA4AAAAvAQAAAAcQEf0PRET/A0VYSUYaAAAATU0AKgAAAAgAAQESAAMAAAABAAYAAAAAAAA=",
  "base64",
);

test("the orientation of a WebP is found", () => {
  assert.equal(webpOrientation(WEBP), 6);
  const little = Buffer.from(WEBP);
  const tiff = little.indexOf("MM\0*");
  little.write("II*\0", tiff, "latin1");
  little.writeUInt32LE(8, tiff + 4);
  little.writeUInt16LE(1, tiff + 8);
  little.writeUInt16LE(0x0112, tiff + 10);
  little.writeUInt16LE(8, tiff + 18);
  assert.equal(webpOrientation(little), 8);
  assert.equal(webpOrientation(Buffer.from("\x89PNG\r\n\x1a\n and so on", "latin1")), 1);
});

test("damaged files are upright, and are read in no more steps than they have bytes", () => {
  for (let length = 0; length < WEBP.length; length++) webpOrientation(WEBP.subarray(0, length));
  for (let at = 0; at < WEBP.length; at++) {
    for (const value of [0, 1, 127, 255]) {
      const damaged = Uint8Array.from(WEBP);
      damaged[at] = value;
      assert.ok(Number.isInteger(webpOrientation(damaged)));
    }
  }
});
