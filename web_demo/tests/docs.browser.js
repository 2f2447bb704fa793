/** The built documents in Chromium: `node --test tests/docs.browser.js`, after `make docs`. */

import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { after, before, test } from "node:test";

import { launch, open, serve } from "./browser.js";

const SITE = process.env.SITE ?? "../build/docs";
const PAGES = readdirSync(SITE, { recursive: true }).filter((name) => name.endsWith(".html"));

let server, browser;
before(async () => {
  server = await serve(SITE);
  browser = await launch();
});
after(async () => {
  await browser.close();
  server.stop();
});

for (const width of [390, 1280]) {
  test(`no page has an error, another server's file or a part wider than ${width} pixels`, async () => {
    const viewport = { width, height: 900 };
    const { page, faults } = await open(browser, server.url, { viewport });
    for (const name of PAGES) {
      await page.goto(new URL(name, server.url).href, { waitUntil: "load" });
      const found = await page.evaluate(() => ({
        title: document.querySelector("h1")?.textContent,
        width: document.documentElement.scrollWidth,
        missing: [...document.images].filter((image) => !image.naturalWidth).map(({ src }) => src),
      }));
      assert.ok(found.title || name === "404.html", name);
      assert.ok(found.width <= width, `${name} is ${found.width} pixels wide`);
      assert.deepEqual(found.missing, [], name);
      assert.deepEqual(faults, [], name);
    }
    await page.context().close();
  });
}

for (const width of [390, 1280]) {
  test(`${width} pixels wide, no word in a table is broken and no button covers code`, async () => {
    const viewport = { width, height: 900 };
    const { page } = await open(browser, server.url, { viewport });
    for (const name of PAGES) {
      await page.goto(new URL(name, server.url).href, { waitUntil: "load" });
      if (await page.$("pre[id] > code")) await page.waitForSelector(".md-code__nav", { state: "attached" });
      assert.deepEqual(await page.evaluate(faultsOfLayout), { broken: [], covered: [] }, name);
    }
    await page.context().close();
  });
}

/** In the page: words in tables that are on more than one line, and code that a button covers. */
function faultsOfLayout() {
  const broken = [];
  for (const cell of document.querySelectorAll(".md-typeset :is(td, th)")) {
    if (cell.closest("pre, .highlighttable")) continue;
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let text; (text = texts.nextNode()); ) {
      for (const { 0: word, index } of text.data.matchAll(/\S+/g)) {
        const range = new Range();
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        const tops = [...range.getClientRects()].filter((box) => box.width).map(({ top }) => top);
        if (tops.length && Math.max(...tops) - Math.min(...tops) > 5) broken.push(word);
      }
    }
  }
  const covered = [...document.querySelectorAll(".md-code__nav")].filter((buttons) => {
    const code = buttons.parentElement.querySelector("code").getBoundingClientRect();
    const { left, width } = buttons.getBoundingClientRect();
    return width && code.right > left;
  });
  return { broken, covered: covered.map((buttons) => buttons.parentElement.textContent) };
}

test("the search finds a function and leads to it", async () => {
  const { page, faults } = await open(browser, server.url);
  await page.keyboard.press("/");
  await page.keyboard.type("export_tflite");
  await page.click('.md-search-result__link[href$="#keras_vit.deploy.export_tflite"]');
  await page.waitForURL(/deploy.html/);
  assert.deepEqual(faults, []);
  await page.context().close();
});
