/** Draws a state. */

import { drawAdded } from "./added_view.js";
import { counted, element, gridText, made, sizeText } from "./dom.js";
import { BACKENDS } from "./engine.js";
import { drawMask, legendOf, maskCanvas } from "./masks_view.js";
import { captionOf, drawPatches, patchesView } from "./patches_view.js";
import { percentText } from "./scores.js";
import { similarOf } from "./similar_view.js";

const OTHER_CLASS = "pixels of another class";
let drawn = {}; // the state that is on the page

/** Draws what has changed. */
export function draw(state) {
  const changed = (...names) => names.some((name) => state[name] !== drawn[name]);
  if (changed("problem")) drawProblem(state.problem);
  if (changed("bundles", "bundle")) drawBundles(state);
  if (changed("backend")) drawBackends(state.backend);
  if (changed("model", "pictures", "bundle")) drawModel(state);
  if (changed("model", "added", "news")) drawAdded(state);
  if (changed("pictures", "camera")) drawAnswers(state);
  if (changed("check")) drawCheck(state);
  drawn = state;
}

function drawProblem(problem) {
  element("problem").hidden = problem === null;
  element("problem").textContent = problem ?? "";
}

function drawBundles({ bundles, bundle }) {
  const options = bundles.map((name) => made("option", { textContent: name, value: name }));
  element("bundle").replaceChildren(...options);
  if (bundle) element("bundle").value = bundle;
}

function drawBackends(chosen) {
  const fieldset = element("backends");
  if (!fieldset.querySelector("input")) fieldset.append(...BACKENDS.map(choiceOf));
  fieldset.querySelector(`[value=${chosen}]`).checked = true;
}

function choiceOf({ id, label }) {
  return made("label", {}, made("input", { type: "radio", name: "backend", value: id }), label);
}

function drawModel({ model, bundle, pictures, version }) {
  element("status").textContent = statusOf(model, bundle, pictures);
  document.body.dataset.model = model.kind;
  element("opacity-row").hidden = !(model.kind === "ready" && model.bundle.description.output.isMask);
  for (const id of ["own", "verify"]) element(id).disabled = model.kind !== "ready";
  element("facts").replaceChildren(
    ...(model.kind === "ready" ? factsOf(model.bundle, version) : []),
  );
}

function statusOf(model, bundle, pictures) {
  if (model.kind === "loading") return bundle ? `Loading ${bundle}.` : "Loading.";
  if (model.kind === "failed") return "No model is loaded.";
  const waiting = pictures.filter(({ answer }) => answer === null).length;
  if (waiting) return `${waiting} of ${pictures.length} pictures to go.`;
  const { label } = model.backend;
  return model.isWhole
    ? `Ready on: ${label}. All operators are accelerated.`
    : `Ready on: ${label}. Some operators are not accelerated and run on slower kernels.`;
}

function factsOf(bundle, version) {
  const { model, precision, input, bytes } = bundle.description;
  const facts = {
    Model: model,
    Precision: precision,
    Size: `${(bytes / 2 ** 20).toFixed(2)} MiB`,
    Input: `${input.width} × ${input.height} pixels`,
    ...outputOf(bundle),
    "LiteRT.js": version,
  };
  return Object.entries(facts).map(([name, value]) =>
    made("div", {}, made("dt", { textContent: name }), made("dd", { textContent: value })),
  );
}

function outputOf(bundle) {
  const { kind, rows, columns, features } = bundle.description.output;
  if (kind === "features") return featuresOf(bundle);
  if (bundle.description.output.isMask) return { Mask: sizeText(rows, columns), Classes: classesOf(bundle) };
  if (kind !== "feature_map") return { Classes: classesOf(bundle) };
  return { "Feature map": `${gridText(rows, columns)} of ${counted(features, "feature")}` };
}

function featuresOf({ description, gallery }) {
  const { size, isNormalized } = description.output;
  const count = size.toLocaleString("en");
  return { Features: isNormalized ? `${count}, of length 1` : count, Gallery: galleryOf(gallery) };
}

function galleryOf(gallery) {
  if (gallery === null) return "none";
  const [pictures, classes] = [gallery.pictures.length, gallery.classes.length];
  const count = counted(pictures, "picture");
  return classes ? `${count} of ${counted(classes, "class", "classes")}` : count;
}

function classesOf({ labels, description }) {
  const count = labels.length.toLocaleString("en");
  return description.output.isExclusive || description.output.isMask ? count : `${count}, of which several can be right`;
}

const cards = new Map(); // of each picture's id: {picture, card}

function drawAnswers({ pictures, camera }) {
  element("clear").hidden = pictures.length === 0;
  element("camera").textContent = camera ? "Stop the camera" : "Use the camera";
  for (const id of cards.keys()) {
    if (!pictures.some((picture) => picture.id === id)) cards.delete(id);
  }
  const items = pictures.map((picture) => {
    if (cards.get(picture.id)?.picture !== picture) {
      cards.set(picture.id, { picture, card: cardOf(picture) });
    }
    return cards.get(picture.id).card;
  });
  if (camera) items.unshift(cameraCard(camera));
  const list = element("answers");
  const isSame =
    items.length === list.children.length && items.every((item, i) => item === list.children[i]);
  if (!isSame) list.replaceChildren(...items); // a video that is moved stops for a moment
}

function cardOf({ name, answer }) {
  const title = made("h3", { textContent: name });
  if (!answer) return made("li", {}, title, made("p", { textContent: "Waiting." }));
  if (answer.problem) {
    return made(
      "li",
      {},
      title,
      made("p", { className: "wrong" }, made("bdi", { textContent: name }), `: ${answer.problem}`),
    );
  }
  const picture = answer.mask ? maskedOf(answer, name) : pictureOf(answer, name);
  const text = made("div", {}, title, ...foundOf(answer));
  if (answer.mask) return made("li", { className: "under-mask" }, picture, text);
  if (answer.patches) {
    const { canvas, details } = patchesView(name);
    drawPatches(canvas, answer);
    return made("li", { className: "map" }, picture, canvas, text, details);
  }
  return made("li", {}, picture, text, ...(answer.similar?.length ? [similarOf(answer.similar)] : []));
}

/** What the text of a card says. */
function foundOf(answer) {
  const caption = answer.patches ? [captionOf(answer)] : [];
  if (answer.mask) caption.push(legendOf(answer.mask));
  return [...caption, ...predictionsOf(answer), timesOf(answer)];
}

/** A picture under its mask. */
function maskedOf(answer, name) {
  const mask = maskCanvas();
  drawMask(mask, answer, name);
  return made("div", { className: "masked" }, pictureOf(answer, name), mask);
}

let watched = null; // {video, card, text, images, mask, canvas, details}

function cameraCard({ video, answer }) {
  if (watched?.video !== video) {
    const text = made("div");
    const { canvas, details } = patchesView("the camera’s picture");
    const mask = maskCanvas();
    const masked = made("div", { className: "masked" }, video, mask);
    const card = made("li", { className: "camera" }, masked, canvas, text, details);
    watched = { video, text, card, images: new WeakMap(), mask, canvas, details };
    video.setAttribute("aria-label", "The camera's picture");
  }
  const isMap = Boolean(answer?.patches);
  watched.card.classList.toggle("map", isMap);
  for (const part of [watched.canvas, watched.details]) part.hidden = !isMap;
  if (isMap) drawPatches(watched.canvas, answer);
  watched.mask.hidden = !answer?.mask;
  if (answer?.mask) drawMask(watched.mask, answer, "the camera’s picture");
  const found = answer ? foundOf(answer) : [];
  if (answer?.similar?.length) found.push(similarOf(answer.similar, watched.images));
  watched.text.replaceChildren(made("h3", { textContent: "Camera" }), ...found);
  return watched.card;
}

/** The picture; what the model does not see of it is dimmed. */
function pictureOf({ bitmap, width, height, seen }, name) {
  const canvas = made("canvas", { width: bitmap.width, height: bitmap.height });
  canvas.classList.toggle("tiny", Math.max(width, height) <= 64);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", name);
  const context = canvas.getContext("2d");
  context.drawImage(bitmap, 0, 0);
  const { left, top, right, bottom } = seen;
  const [x, y] = [bitmap.width / width, bitmap.height / height];
  const dimmed = new Path2D();
  dimmed.rect(0, 0, bitmap.width, bitmap.height);
  dimmed.rect(left * x, top * y, (right - left) * x, (bottom - top) * y);
  context.fillStyle = "rgb(0 0 0 / 50%)";
  context.fill(dimmed, "evenodd");
  return canvas;
}

function predictionsOf({ predictions, similar }) {
  if (similar?.length === 0) {
    const text = "There is nothing to compare with yet: add a class from a few pictures.";
    return [made("p", { className: "note", textContent: text })];
  }
  if (predictions.length === 0) return []; // the similar pictures have no classes
  const rows = predictions.map(({ label, probability }) => {
    const bar = made("div");
    bar.style.width = `${(100 * probability).toFixed(1)}%`;
    return made(
      "li",
      {},
      made("bdi", { textContent: label }),
      made("span", { textContent: percentText(probability) }),
      made("div", { className: "bar" }, bar),
    );
  });
  return [made("ol", {}, ...rows)];
}

function timesOf({ preprocessingMs, time }) {
  const inference = `${milliseconds(time.milliseconds)} (median of ${counted(time.runs, "run")})`;
  return made("p", {
    className: "times",
    textContent: `Preprocessing ${milliseconds(preprocessingMs)}, inference ${inference}`,
  });
}

function milliseconds(value) {
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`;
}

function drawCheck({ check }) {
  if (check === null) return element("verdict").replaceChildren();
  if (check.kind === "running") {
    return element("verdict").replaceChildren(made("p", { textContent: "Running." }));
  }
  const { compared, pixels } = check;
  const verdict = check.passed
    ? `Yes: the tensor and the ${compared} are within the bundle’s tolerances.`
    : "No: the differences are over the bundle’s tolerances.";
  const rows = [
    ["", "largest difference", "tolerance"],
    ["tensor", shortest(check.tensorDifference), shortest(check.tensorTolerance)],
    compared === "classes"
      ? [OTHER_CLASS, fractionText(check.scoreDifference), fractionText(check.scoreTolerance)]
      : [compared, shortest(check.scoreDifference), shortest(check.scoreTolerance)],
    ...(pixels ? [[OTHER_CLASS, fractionText(pixels.difference), fractionText(pixels.tolerance)]] : []),
  ].map((cells, row) =>
    made(
      "tr",
      {},
      ...cells.map((textContent, column) => made(row && column ? "td" : "th", { textContent })),
    ),
  );
  element("verdict").replaceChildren(
    made("p", { className: check.passed ? "right" : "wrong", textContent: verdict }),
    made("table", {}, ...rows),
    ...(check.expectedClass === null ? [] : [made("p", { textContent: foundClassOf(check) })]),
  );
}

function foundClassOf({ labels, expectedClass, foundClass }) {
  const expected = labels[expectedClass];
  if (expectedClass === foundClass) return `Both say: ${expected}`;
  return `Python says ${expected}, this browser says ${labels[foundClass]}`;
}

function fractionText(value) {
  return `${(100 * value).toFixed(2)}%`;
}

function shortest(value) {
  return value === 0 ? "0" : value.toExponential(1);
}
