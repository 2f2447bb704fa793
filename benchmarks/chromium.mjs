/** Runs the cases of a runner in a page of Chromium that reaches nothing but files of this computer. */

import { existsSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const WEB_DEMO = new URL("../web_demo/", import.meta.url);
const ORIGIN = "http://localhost";
const BLANK = "<!doctype html><title>blank</title>";
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
const FLAGS = ["--no-sandbox", "--disable-background-networking", "--no-first-run"];
// SwiftShader, Chromium's GPU without a GPU.
const WEBGPU =
  process.env.WEBGPU_FLAGS ?? "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader";

/**
 * What a runner answers, see `keras_vit/tflite/client_process.py`. The page finds the model at
 * /model, the cases in /cases/, the files of web_demo at their paths in that folder, and those of
 * LiteRT.js where the web page has them.
 *
 * @param {string} name the npm package that runs the model
 * @param {string} model the path of the model
 * @param {string} folder that of the cases
 * @param {function} evaluated runs in the page and returns what is answered beside the version
 * @param {string} argument of `evaluated`
 */
export async function answerOf(name, model, folder, evaluated, argument) {
  const installed = new URL(`node_modules/${name}/package.json`, WEB_DEMO);
  if (!existsSync(installed)) return { missing: `${name}: npm ci --prefix web_demo` };
  if (!existsSync(CHROMIUM)) return { missing: `${CHROMIUM}: install Chromium or set CHROMIUM` };
  const fileOf = (path) => {
    if (path === "model") return model;
    if (path.startsWith("cases/")) return join(folder, path.slice("cases/".length));
    const own = path.replace(/^litert\/wasm\//, "node_modules/@litertjs/core/wasm/");
    return fileURLToPath(new URL(own, WEB_DEMO));
  };
  const { version } = JSON.parse(readFileSync(installed, "utf-8"));
  return { version, ...(await inChromium(fileOf, evaluated, argument)) };
}

async function inChromium(fileOf, evaluated, argument) {
  const { chromium } = createRequire(new URL("package.json", WEB_DEMO))("playwright-core");
  const args = [...FLAGS, ...WEBGPU.split(" ")];
  const browser = await chromium.launch({ executablePath: CHROMIUM, args });
  try {
    const page = await browser.newPage();
    await page.route("**", (route) => {
      const { origin, pathname } = new URL(route.request().url());
      if (origin !== ORIGIN) return route.abort();
      if (pathname === "/") return route.fulfill({ body: BLANK, contentType: "text/html" });
      const path = fileOf(decodeURIComponent(pathname.slice(1)));
      return route.fulfill(existsSync(path) ? { path } : { status: 404 });
    });
    await page.goto(ORIGIN);
    return await page.evaluate(evaluated, argument);
  } finally {
    await browser.close();
  }
}
