/**
 * Runs pictures through MediaPipe's ImageClassifier in Chromium, on the CPU, and prints the
 * probabilities as JSON.
 *
 *     npm ci --prefix web_demo
 *     node benchmarks/tasks_vision_runner.mjs MODEL.tflite FOLDER
 *
 * `keras_vit/tflite/client_process.py` says what FOLDER has and what is printed. MODEL.tflite gives
 * probabilities (`keras-vit export --output probabilities`): MediaPipe applies no softmax. CHROMIUM
 * names the browser's program. The answer also has "milliseconds" of each picture.
 */

import { answerOf } from "./chromium.mjs";

/** Runs in the page. */
async function scores() {
  const home = "/node_modules/@mediapipe/tasks-vision";
  const { FilesetResolver, ImageClassifier } = await import(`${home}/vision_bundle.mjs`);
  const fetched = async (path) => new Uint8Array(await (await fetch(path)).arrayBuffer());
  try {
    const classifier = await ImageClassifier.createFromOptions(
      await FilesetResolver.forVisionTasks(`${home}/wasm`),
      { baseOptions: { modelAssetBuffer: await fetched("/model"), delegate: "CPU" } },
    );
    const [found, milliseconds] = [[], []];
    for (const { file, shape } of await (await fetch("/cases/cases.json")).json()) {
      const [height, width] = shape;
      const pixels = await fetched(`/cases/${file}`);
      const image = new ImageData(width, height);
      for (let from = 0, to = 0; to < image.data.length; from += 3, to += 4) {
        image.data.set([pixels[from], pixels[from + 1], pixels[from + 2], 255], to);
      }
      const begun = performance.now();
      const { categories } = classifier.classify(image).classifications[0];
      milliseconds.push(performance.now() - begun);
      const row = [];
      for (const { index, score } of categories) row[index] = score;
      found.push(Array.from(row, (score) => score ?? 0));
    }
    return { scores: found, milliseconds };
  } catch (error) {
    return { refused: String(error.message ?? error).split("\n")[0] };
  }
}

const [model, folder] = process.argv.slice(2);
console.log(JSON.stringify(await answerOf("@mediapipe/tasks-vision", model, folder, scores)));
