/** The page: holds the state, acts on what the user does, and has each new state drawn. */

import { join, readAdded, storeAdded, withPictures } from "./added.js";
import { fetchBundle } from "./bundle.js";
import { openCamera } from "./camera.js";
import { classify, median, medianTime, tell } from "./classify.js";
import { counted, element } from "./dom.js";
import { BACKENDS, compile } from "./engine.js";
import { UserError, reasonOf } from "./errors.js";
import { compare } from "./golden.js";
import { setOpacity } from "./masks_view.js";
import { bitmapOf, decode, readPixels, thumbnailOf } from "./pixels.js";
import { unit } from "./similar.js";
import { draw } from "./view.js";

const MOST_PICTURES = 60; // the oldest are dropped
const NEWEST = 30; // frames of the camera whose median time is shown

let state = {
  bundles: [], // names
  galleries: [], // names of those that have one
  version: null, // of LiteRT.js
  bundle: null, // the name of the chosen one
  backend: BACKENDS[0].id,
  model: { kind: "loading" }, // or {kind: "ready", bundle, backend, isWhole}, {kind: "failed"}
  added: [], // classes that the user added to a model of features (added.js)
  news: null, // of them, one line
  collection: null, // what the features of a picture are compared with (added.js)
  pictures: [], // {id, name, file | image, answer: null | {...} | {problem}}
  camera: null, // {video, answer}
  check: null, // {kind: "running"}, {kind: "done", ...}
  problem: null, // one line
};
let engine = null; // the compiled model; there is one at a time
let queue = Promise.resolve(); // the model runs for one at a time
let lastId = 0;

function update(change) {
  state = { ...state, ...change };
  draw(state);
}

/** Runs work after all that was asked for before. What the page cannot do becomes its problem. */
function enqueue(work) {
  queue = queue.then(work).catch((error) => {
    if (!(error instanceof UserError)) console.error(error);
    update({ problem: reasonOf(error) });
  });
  return queue;
}

/** Loads the chosen bundle on the chosen backend, and classifies again what is shown. */
function load() {
  const { bundle: name, backend, pictures } = state;
  const loading = { model: { kind: "loading" }, pictures: pictures.map(unanswered) };
  update({ ...loading, added: [], news: null, check: null, problem: null });
  enqueue(async () => {
    if (name !== state.bundle || backend !== state.backend) return; // chosen again meanwhile
    engine?.close();
    engine = null;
    try {
      const bundle = await fetchBundle(name, state.galleries.includes(name));
      const { input, output, sha256 } = bundle.description;
      const chosen = BACKENDS.find(({ id }) => id === backend);
      engine = await compile(bundle.model, [1, input.height, input.width, 3], chosen);
      if (name !== state.bundle || backend !== state.backend) return;
      const added = output.kind === "features" ? readAdded(sha256, output.size) : [];
      const model = { kind: "ready", bundle, backend: chosen, isWhole: engine.isWhole };
      update({ model, added, collection: join(bundle.gallery, added) });
    } catch (error) {
      update({ model: { kind: "failed" } });
      throw error;
    }
  });
  pictures.forEach(({ id }) => enqueue(() => answer(id)));
}

function unanswered(picture) {
  return { ...picture, answer: null };
}

/** @param {{name: string, file?: Blob, image?: object}[]} added */
function addPictures(added) {
  const pictures = added.map((picture) => ({ ...picture, id: ++lastId, answer: null }));
  update({ pictures: [...pictures, ...state.pictures].slice(0, MOST_PICTURES), problem: null });
  pictures.forEach(({ id }) => enqueue(() => answer(id)));
}

async function answer(id) {
  const picture = state.pictures.find((each) => each.id === id);
  const { model } = state;
  if (picture?.answer !== null || model.kind !== "ready") return;
  let found;
  try {
    found = await answerOf(picture, model);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    found = { problem: error.message };
  }
  if (state.model !== model) return; // another one was chosen, which answers soon
  const told = { answer: toldOf(found) };
  update({ pictures: state.pictures.map((each) => (each.id === id ? { ...each, ...told } : each)) });
}

/** An answer with what the card says of its scores. */
function toldOf(answer) {
  if (!answer?.scores) return answer;
  return { ...answer, ...tell(answer.scores, state.model.bundle, state.collection) };
}

async function answerOf(picture, { bundle }) {
  const bitmap = picture.image ? await bitmapOf(picture.image) : await decode(picture.file);
  const image = picture.image ?? readPixels(bitmap, bitmap.width, bitmap.height);
  const found = await classify(image, bundle, engine);
  const time = await medianTime(found.tensor, engine);
  return { ...found, time, bitmap: await smaller(bitmap) };
}

/** A bitmap for the screen, so that large pictures do not stay in memory. */
async function smaller(bitmap) {
  const factor = Math.min(1, 480 / Math.max(bitmap.width, bitmap.height));
  const size = (side) => Math.max(Math.round(side * factor), 1);
  const result = await createImageBitmap(bitmap, {
    resizeWidth: size(bitmap.width),
    resizeHeight: size(bitmap.height),
    resizeQuality: "high",
  });
  bitmap.close();
  return result;
}

/** Adds pictures to a class, by the features that the model makes of them. */
function addClass(name, files) {
  const { model } = state;
  update({ news: `Adding ${counted(files.length, "picture")}.`, problem: null });
  enqueue(async () => {
    const pictures = [];
    const problems = [];
    for (const file of files) {
      try {
        pictures.push(await exampleOf(file, model));
      } catch (error) {
        if (!(error instanceof UserError)) throw error;
        problems.push(`${file.name}: ${error.message}`);
      }
    }
    if (state.model !== model) throw new UserError("Another model was chosen; add the class again.");
    update({ news: `${counted(pictures.length, "picture")} added.` });
    if (pictures.length) setAdded(withPictures(state.added, name, pictures));
    if (problems.length) throw new UserError(problems.join(" "));
  });
}

async function exampleOf(file, { bundle }) {
  const bitmap = await decode(file);
  const image = readPixels(bitmap, bitmap.width, bitmap.height);
  const { scores } = await classify(image, bundle, engine);
  const thumbnail = thumbnailOf(bitmap);
  bitmap.close();
  return { name: file.name, vector: Float32Array.from(unit(scores)), thumbnail };
}

function removeClass(name) {
  const { pictures } = state.added.find((each) => each.name === name);
  update({ news: `${counted(pictures.length, "picture")} removed.` });
  setAdded(state.added.filter((each) => each.name !== name));
  element("class-name").focus(); // the button has gone
}

/** Compares all pictures again, with the features that they have. */
function setAdded(added) {
  const { bundle } = state.model;
  update({ added, collection: join(bundle.gallery, added) });
  update({
    pictures: state.pictures.map((each) => ({ ...each, answer: toldOf(each.answer) })),
    problem: storeAdded(bundle.description.sha256, added),
  });
}

function addOwnPicture() {
  if (state.model.kind !== "ready") return;
  const { golden, name } = state.model.bundle;
  addPictures([{ name: `the picture of ${name}`, image: golden.image }]);
}

function verify() {
  update({ problem: null });
  enqueue(async () => {
    const { model } = state;
    if (model.kind !== "ready") return;
    const { bundle, backend } = model;
    update({ check: { kind: "running" } });
    try {
      const { tensor, scores } = await classify(bundle.golden.image, bundle, engine);
      if (state.model !== model) return;
      const compared = compare(bundle.golden, tensor, scores, backend.isHalf);
      update({ check: { kind: "done", labels: bundle.labels, ...compared } });
    } catch (error) {
      update({ check: null });
      throw error;
    }
  });
}

async function toggleCamera() {
  if (state.camera) return stopCamera();
  update({ problem: null });
  try {
    const video = await openCamera(stopCamera);
    update({ camera: { video, answer: null } });
    watch(video);
  } catch (error) {
    if (!(error instanceof UserError)) console.error(error);
    update({ problem: reasonOf(error) });
  }
}

function stopCamera() {
  state.camera?.video.srcObject.getTracks().forEach((track) => track.stop());
  update({ camera: null });
}

/** Classifies frames until the camera is stopped. */
async function watch(video) {
  let timed = null; // the model that the times are of
  let times = [];
  while (state.camera?.video === video) {
    await enqueue(async () => {
      const { model } = state;
      if (model.kind !== "ready" || state.camera?.video !== video) return;
      const { videoWidth: width, videoHeight: height } = video;
      const found = await classify(readPixels(video, width, height), model.bundle, engine);
      if (state.model !== model || state.camera?.video !== video) return;
      times = [...(timed === model ? times : []), found.inferenceMs].slice(-NEWEST);
      timed = model;
      const time = { milliseconds: median(times), runs: times.length };
      update({ camera: { video, answer: toldOf({ ...found, time }) } });
    });
    if (state.problem) return stopCamera();
    await new Promise(requestAnimationFrame); // the page stays usable; hidden pages pause
  }
}

function chosenFiles(list) {
  return Array.from(list, (file) => ({ name: file.name, file }));
}

function listen() {
  element("bundle").addEventListener("change", (event) => {
    update({ bundle: event.target.value });
    load();
  });
  element("backends").addEventListener("change", (event) => {
    update({ backend: event.target.value });
    load();
  });
  element("files").addEventListener("change", (event) => {
    addPictures(chosenFiles(event.target.files));
    event.target.value = ""; // the same file may be chosen again
  });
  element("add").addEventListener("submit", (event) => {
    event.preventDefault();
    const [name, files] = [element("class-name"), element("class-files")];
    addClass(name.value.trim(), [...files.files]);
    event.target.reset();
    name.focus();
  });
  element("added").addEventListener("click", ({ target }) => target.value && removeClass(target.value));
  element("camera").addEventListener("click", toggleCamera);
  element("own").addEventListener("click", addOwnPicture);
  element("clear").addEventListener("click", () => {
    update({ pictures: [], problem: null });
    element("files").focus(); // the button has gone
  });
  element("verify").addEventListener("click", verify);
  element("opacity").addEventListener("input", ({ target }) => setOpacity(target));
  listenToDrops();
}

function listenToDrops() {
  const mark = (isOver) => element("drop").classList.toggle("over", isOver);
  // Anywhere on the page: a picture dropped beside the frame would otherwise replace the page.
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    mark(true);
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget ?? mark(false));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    const files = chosenFiles(event.dataTransfer.files);
    if (files.length) addPictures(files);
    else update({ problem: "That was no file; drop picture files." });
  });
}

async function start() {
  listen();
  draw(state);
  try {
    const response = await fetch("bundles.json", { cache: "no-cache" });
    const { bundles, galleries = [], litert_js: version } = await response.json();
    update({ bundles, galleries, bundle: bundles[0], version });
  } catch {
    return update({
      model: { kind: "failed" },
      problem: "bundles.json cannot be read; serve the folder that keras-vit web made.",
    });
  }
  load();
}

start();
