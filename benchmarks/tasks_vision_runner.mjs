/**
 * Runs pictures through MediaPipe's ImageClassifier in Chromium, and prints the probabilities as
 * JSON.
 *
 *     npm ci --prefix web_demo
 *     node benchmarks/tasks_vision_runner.mjs MODEL.tflite PICTURES WIDTH HEIGHT
 *
 * MODEL.tflite gives probabilities (`keras-vit export --output probabilities`): MediaPipe applies no
 * softmax. PICTURES is a file of pictures of this size one after the other, as raw R, G and B
 * (`array.astype("u1").tofile(path)`). It runs on the CPU. CHROMIUM names the browser's program.
 *
 * The output is {"scores": [[...], ...], "milliseconds": the median of a picture}, or {"refused":
 * reason}.
 */

import { fileURLToPath } from "node:url";

import { WEB_DEMO, inChromium } from "./chromium.mjs";

const PACKAGE = new URL("node_modules/@mediapipe/tasks-vision/", WEB_DEMO);

function main(model, pictures, width, height) {
  const own = new Map([
    ["", null],
    ["model", model],
    ["pictures", pictures],
  ]);
  const fileOf = (path) => (own.has(path) ? own.get(path) : fileURLToPath(new URL(path, PACKAGE)));
  return inChromium(fileOf, scores, { width: Number(width), height: Number(height) });
}

/** Runs in the page. */
async function scores({ width, height }) {
  const { FilesetResolver, ImageClassifier } = await import("/vision_bundle.mjs");
  const fetched = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
  try {
    const classifier = await ImageClassifier.createFromOptions(
      await FilesetResolver.forVisionTasks("/wasm"),
      { baseOptions: { modelAssetBuffer: await fetched("model"), delegate: "CPU" } },
    );
    const pixels = await fetched("pictures");
    const [found, times] = [[], []];
    for (let start = 0; start < pixels.length; start += width * height * 3) {
      const image = new ImageData(width, height);
      for (let from = start, to = 0; to < image.data.length; from += 3, to += 4) {
        image.data.set([pixels[from], pixels[from + 1], pixels[from + 2], 255], to);
      }
      const begun = performance.now();
      const { categories } = classifier.classify(image).classifications[0];
      times.push(performance.now() - begun);
      const row = [];
      for (const { index, score } of categories) row[index] = score;
      found.push(Array.from(row, (score) => score ?? 0));
    }
    times.sort((a, b) => a - b);
    return { scores: found, milliseconds: times[Math.floor(times.length / 2)] };
  } catch (error) {
    return { refused: String(error.message ?? error).split("\n")[0] };
  }
}

console.log(JSON.stringify(await main(...process.argv.slice(2))));
