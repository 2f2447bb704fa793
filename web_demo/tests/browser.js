/** A real Chromium on a site that Python's own web server serves. */

import { spawn } from "node:child_process";
import { once } from "node:events";

import { chromium } from "playwright-core";

const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
// SwiftShader is WebGPU without a GPU. Nothing but the page may use the network.
const FLAGS = [
  "--no-sandbox",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
  "--use-fake-device-for-media-stream",
];
const WEBGPU = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];

/** Serves a folder. Returns its address and what stops it. */
export async function serve(folder) {
  const options = ["-u", "-m", "http.server", "--bind", "127.0.0.1", "--directory", folder, "0"];
  const server = spawn("python3", options, { stdio: ["ignore", "pipe", "ignore"] });
  const [line] = await once(server.stdout, "data");
  const [url] = String(line).match(/http:[^)]+/);
  return { url, stop: () => server.kill() };
}

/** Starts Chromium, with WebGPU if asked for. */
export function launch({ webgpu = true } = {}) {
  return chromium.launch({
    executablePath: CHROMIUM,
    args: webgpu ? [...FLAGS, ...WEBGPU] : [...FLAGS, "--disable-features=WebGPU"],
  });
}

/**
 * Opens the page.
 *
 * @returns {Promise<{page, faults: string[]}>} `faults` grows by errors in the console and by
 *     requests to other addresses
 */
export async function open(browser, url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(120_000);
  const faults = [];
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== new URL(url).origin) faults.push(`request to ${request.url()}`);
  });
  await page.goto(url);
  return { page, faults };
}

/** Chooses a bundle and a backend, as a user does, and waits for the model. */
export async function choose(page, bundle, backend) {
  await loaded(page);
  await page.selectOption("#bundle", bundle);
  await loaded(page);
  await page.check(`input[value=${backend}]`);
  await loaded(page);
}

/** Waits until the model is ready, or cannot be. */
export function loaded(page) {
  return page.waitForSelector("body:not([data-model=loading])");
}

/** Drops files on the page. @param {{name: string, content: Buffer}[]} files */
export async function drop(page, files) {
  const encoded = files.map(({ name, content }) => ({ name, base64: content.toString("base64") }));
  const transfer = await page.evaluateHandle((all) => {
    const data = new DataTransfer();
    for (const { name, base64 } of all) {
      const bytes = Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
      data.items.add(new File([bytes], name));
    }
    return data;
  }, encoded);
  await page.dispatchEvent("#drop", "drop", { dataTransfer: transfer });
}
