/**
 * Runs tensors through a file in LiteRT.js, in Chromium, and prints the scores as JSON.
 *
 *     npm ci --prefix web_demo
 *     node benchmarks/litert_js_runner.mjs BACKEND MODEL.tflite FOLDER
 *
 * `keras_vit/tflite/client_process.py` says what FOLDER has and what is printed. The output of the
 * file must be float32. BACKEND is wasm, webgpu or webgpu-half. WebGPU is that of SwiftShader, unless
 * the variable WEBGPU_FLAGS has other flags for Chromium; CHROMIUM names its program. The answer also
 * has "milliseconds" of each case, and "accelerated": whether the backend took all operators.
 */

import { answerOf } from "./chromium.mjs";

/** Runs in the page, with the engine of the web page. */
async function scores(backend) {
  const packages = "/node_modules/@litertjs";
  const map = document.createElement("script");
  map.type = "importmap";
  map.textContent = JSON.stringify({
    imports: {
      "@litertjs/core": `${packages}/core/dist/index.js`,
      "@litertjs/wasm-utils": `${packages}/wasm-utils/dist/index.js`,
    },
  });
  document.head.append(map);
  const { BACKENDS, compile } = await import("/page/engine.js");
  const fetched = async (path) => (await fetch(path)).arrayBuffer();
  const cases = await (await fetch("/cases/cases.json")).json();
  const arrays = { float32: Float32Array, uint8: Uint8Array };
  try {
    const model = new Uint8Array(await fetched("/model"));
    const chosen = BACKENDS.find(({ id }) => id === backend);
    const engine = await compile(model, [1, ...cases[0].shape], chosen);
    const [found, milliseconds] = [[], []];
    for (const { file, dtype } of cases) {
      const tensor = new arrays[dtype](await fetched(`/cases/${file}`));
      const begun = performance.now();
      found.push(Array.from(await engine.run(tensor)));
      milliseconds.push(performance.now() - begun);
    }
    return { scores: found, milliseconds, accelerated: engine.isWhole };
  } catch (error) {
    return { refused: error.message };
  }
}

const [backend, model, folder] = process.argv.slice(2);
console.log(JSON.stringify(await answerOf("@litertjs/core", model, folder, scores, backend)));
