/** Draws the pictures that are most similar to one. */

import { made } from "./dom.js";

/**
 * @param {{picture, similarity: number}[]} similar
 * @param {WeakMap} images of pictures, those that the card shows already, which it goes on to show
 */
export function similarOf(similar, images = new WeakMap()) {
  const items = similar.map(({ picture, similarity }) => {
    if (!images.has(picture)) images.set(picture, imageOf(picture));
    const { name } = picture;
    return made(
      "li",
      { title: name },
      images.get(picture),
      made("span", { textContent: similarity.toFixed(2) }),
      made("bdi", { textContent: name }),
    );
  });
  const list = made("ul", {}, ...items);
  return made("div", { className: "similar" }, made("h4", { textContent: "Most similar" }), list);
}

function imageOf({ name, thumbnail }) {
  return made("img", { loading: "lazy", src: thumbnail, alt: name });
}
