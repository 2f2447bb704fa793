import assert from "node:assert/strict";
import { test } from "node:test";

import { unreadable } from "../page/formats.js";

/** The first bytes of an ISO media file with these brands. */
function header(major, ...others) {
  const brands = `${major}\0\0\0\0${others.join("")}`;
  const length = 8 + brands.length;
  return Buffer.from(`\0\0\0${String.fromCharCode(length)}ftyp${brands}and more`, "latin1");
}

test("a HEIC picture is named, with what to do", () => {
  for (const brands of [["heic", "mif1", "heic"], ["mif1", "miaf", "heix"], ["heix"], ["msf1"]]) {
    assert.match(unreadable(header(...brands)), /^this is a HEIC picture.*save it as JPEG/);
  }
});

test("other files that cannot be read are not called HEIC", () => {
  const other = "this is not a picture that the browser can read.";
  for (const brands of [["avif", "mif1"], ["mif1", "avif"], ["isom", "mp42"]]) {
    assert.equal(unreadable(header(...brands)), other);
  }
  assert.equal(unreadable(Buffer.from("text that names heic")), other);
  const heic = header("isom");
  for (let length = 0; length < heic.length; length++) {
    assert.equal(unreadable(heic.subarray(0, length)), other);
  }
  assert.equal(unreadable(Buffer.alloc(512, 255)), other);
});
