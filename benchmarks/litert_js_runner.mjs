/**
 * Runs tensors through a bundle in LiteRT.js, in Chromium, and prints the scores as JSON.
 *
 *     keras-vit web --bundle runs/demo/export/int8 --name int8 --out SITE
 *     npm ci --prefix web_demo
 *     node benchmarks/litert_js_runner.mjs SITE int8 BACKEND TENSORS
 *
 * BACKEND is wasm, webgpu or webgpu-half. WebGPU is that of SwiftShader, unless the variable
 * WEBGPU_FLAGS has other flags for Chromium; CHROMIUM names its program. TENSORS is a file of input
 * tensors one after the other, as raw little-endian values of the bundle's type
 * (`array.astype("<f4").tofile(path)`).
 *
 * The output is {"scores": [[...], ...], "milliseconds": the median of a run, "accelerated":
 * whether all operators are}, or {"refused": reason}.
 */

import { join } from "node:path";

import { inChromium } from "./chromium.mjs";

function main(site, bundle, backend, tensors) {
  const fileOf = (path) => (path === "tensors" ? tensors : join(site, path || "index.html"));
  return inChromium(fileOf, scores, { bundle, backend });
}

/** Runs in the page, with its modules. */
async function scores({ bundle: name, backend }) {
  const { fetchBundle } = await import("./bundle.js");
  const { BACKENDS, compile } = await import("./engine.js");
  const { readScores } = await import("./scores.js");
  const { median } = await import("./classify.js");
  try {
    const { model, description } = await fetchBundle(name);
    const { height, width, dtype } = description.input;
    const chosen = BACKENDS.find(({ id }) => id === backend);
    const engine = await compile(model, [1, height, width, 3], chosen);
    const bytes = await (await fetch("tensors")).arrayBuffer();
    const values = dtype === "float32" ? new Float32Array(bytes) : new Uint8Array(bytes);
    const size = height * width * 3;
    await engine.run(values.slice(0, size)); // the warm-up
    const [found, times] = [[], []];
    for (let start = 0; start < values.length; start += size) {
      const begun = performance.now();
      const output = await engine.run(values.slice(start, start + size));
      times.push(performance.now() - begun);
      found.push(Array.from(readScores(output, description.output)));
    }
    return { scores: found, milliseconds: median(times), accelerated: engine.isWhole };
  } catch (error) {
    return { refused: error.message };
  }
}

console.log(JSON.stringify(await main(...process.argv.slice(2))));
