/** Runs a function in a page of Chromium that reaches nothing but files of this computer. */

import { existsSync } from "node:fs";
import { createRequire } from "node:module";

/** What is installed beside the page by `npm ci --prefix web_demo`. */
export const WEB_DEMO = new URL("../web_demo/", import.meta.url);

const { chromium } = createRequire(new URL("package.json", WEB_DEMO))("playwright-core");
const ORIGIN = "http://localhost";
const BLANK = "<!doctype html><title>blank</title>";
const FLAGS = ["--no-sandbox", "--disable-background-networking", "--no-first-run"];
// SwiftShader, Chromium's GPU without a GPU.
const WEBGPU =
  process.env.WEBGPU_FLAGS ?? "--enable-unsafe-webgpu --use-webgpu-adapter=swiftshader";

/**
 * @param {function(string): string | null} fileOf the file for each path of an address; null for an
 *     empty page
 * @param {function} evaluated runs in the page
 * @param {object} argument of `evaluated`, as JSON
 * @returns what `evaluated` returns
 */
export async function inChromium(fileOf, evaluated, argument) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [...FLAGS, ...WEBGPU.split(" ")],
  });
  try {
    const page = await browser.newPage();
    await page.route("**", (route) => {
      const { origin, pathname } = new URL(route.request().url());
      const path = origin === ORIGIN ? fileOf(decodeURIComponent(pathname.slice(1))) : "";
      if (path === null) return route.fulfill({ body: BLANK, contentType: "text/html" });
      return route.fulfill(existsSync(path) ? { path } : { status: 404 });
    });
    await page.goto(ORIGIN);
    return await page.evaluate(evaluated, argument);
  } finally {
    await browser.close();
  }
}
