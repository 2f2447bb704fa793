/** Draws the section where classes are added. */

import { counted, element, made } from "./dom.js";

export function drawAdded({ model, added, news }) {
  const isFeatures = model.kind === "ready" && model.bundle.description.output.kind === "features";
  element("adding").hidden = !isFeatures;
  element("news").textContent = news ?? "";
  element("added").replaceChildren(...added.map(rowOf));
}

/** The value of its button is the name of the class. */
function rowOf({ name, pictures }) {
  const button = made("button", { type: "button", textContent: "Remove", value: name });
  button.setAttribute("aria-label", `Remove ${name}`);
  const count = `${counted(pictures.length, "picture")} added`;
  const text = [made("bdi", { textContent: name }), made("span", { textContent: count })];
  return made("li", {}, made("div", {}, ...text), button);
}
