/** Makes and finds elements. Texts from outside are set as text, never as HTML. */

export const element = (id) => document.getElementById(id);

export function made(tag, properties = {}, ...children) {
  const node = Object.assign(document.createElement(tag), properties);
  node.append(...children);
  return node;
}

/** "1 picture", "1,200 pictures" */
export function counted(count, one, several = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : several}`;
}

/** "16 × 12 pixels", as width × height. */
export function sizeText(rows, columns) {
  return `${columns}\u00a0×\u00a0${rows} ${rows * columns === 1 ? "pixel" : "pixels"}`;
}

/** "16 × 12 patches", as width × height, where no line ends beside the cross. */
export function gridText(rows, columns) {
  return `${columns}\u00a0×\u00a0${rows} ${rows * columns === 1 ? "patch" : "patches"}`;
}
