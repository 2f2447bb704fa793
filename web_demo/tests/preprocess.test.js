import assert from "node:assert/strict";
import { test } from "node:test";

import { preprocess, resize } from "../page/preprocess.js";
import { fixture, noiseImage, stored } from "./fixtures.js";

test("pictures are cropped and resized as Python does it, bit for bit", () => {
  const cases = fixture("resizing");
  assert.ok(cases.length > 90);
  for (const { image, pixels, ...input } of cases) {
    const actual = resize(noiseImage(image), input);
    assert.deepEqual(stored(actual, pixels), pixels, JSON.stringify({ image, input }));
  }
});

test("tensors have Python's values, as floats and as integers", () => {
  // LiteRT.js has no int8 tensors, and bundle.js refuses them.
  const cases = fixture("tensors").filter(({ dtype }) => dtype !== "int8");
  assert.ok(cases.length > 10);
  for (const { image, tensor, mean, scale, quantization, ...input } of cases) {
    const actual = preprocess(noiseImage(image), {
      ...input,
      mean: Array.isArray(mean) ? mean : [mean, mean, mean],
      scale: Array.isArray(scale) ? scale : [scale, scale, scale],
      quantization: quantization && { scale: quantization[0], zeroPoint: quantization[1] },
      crop: 0.875,
      interpolation: "bicubic",
    });
    assert.deepEqual(stored(actual, tensor), tensor, JSON.stringify({ image, mean, scale, input }));
  }
});
