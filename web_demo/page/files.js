/** Fetches files of a bundle of this site. */

import { UserError, reasonOf } from "./errors.js";

/** The address of a file of a bundle. */
export function addressOf(name, file) {
  return `bundles/${encodeURIComponent(name)}/${file}`;
}

/** @throws {UserError} saying what to do if the file is no JSON */
export async function fetchJson(name, file, remedy = "export it again") {
  const response = await fetched(name, file);
  try {
    return await response.json();
  } catch {
    throw new UserError(`${file.split("/").at(-1)}: expected JSON; ${remedy}.`);
  }
}

export async function fetchText(name, file) {
  return (await fetched(name, file)).text();
}

export async function fetchBytes(name, file) {
  return new Uint8Array(await (await fetched(name, file)).arrayBuffer());
}

async function fetched(name, file) {
  let response;
  try {
    // Files of an older export must not be mixed with new ones.
    response = await fetch(addressOf(name, file), { cache: "no-cache" });
  } catch (error) {
    throw new UserError(`${name}/${file} cannot be fetched (${reasonOf(error)}).`);
  }
  if (response.ok) return response;
  throw new UserError(`${name}/${file} cannot be fetched (status ${response.status}).`);
}
