// A walk through every analysis of the map, in Chromium and Firefox, by mouse, by keys and on a phone.
//
// Usage: npm ci --prefix benchmarks/map_walk
//        node benchmarks/map_walk/walk.mjs MAP OTHER [IMAGES]
//
// MAP and OTHER are maps of two releases of Rhode Island, with their draws; MAP may be the address of one on a site, too
// (`odsynth map --site`, or a service). Browsers are `chromium` and `firefox-esr` of the PATH; Firefox draws maps only on a display (Xvfb is one). Each
// step is taken by each hand in each browser, and must give the same answer every time; axe-core must find no barrier after it; nothing may be asked for
// but the page and, on a site, its parts. Prints a table of steps and answers. With IMAGES, writes pictures for each hand and browser there. ONLY=Firefox
// or WAYS=keys,phone in the environment takes some. Ends with 1 if anything differs.

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [map, other, images] = process.argv.slice(2);
const address = /^https?:/.test(map) ? map : pathToFileURL(resolve(map)).href;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "walk-"));
const LAPTOP = { width: 1366, height: 768 };
const PHONE = { width: 390, height: 844 };
const RING = [[-71.46, 41.78], [-71.36, 41.78], [-71.36, 41.88], [-71.46, 41.88]]; // around Providence
const outline = join(folder, "outline.geojson");
writeFileSync(outline, JSON.stringify({ type: "Polygon", coordinates: [[...RING, RING[0]]] }));

const BROWSERS = {
  Chromium: { browser: "chrome", name: "chromium", args: ["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"] },
  Firefox: {
    browser: "firefox",
    name: "firefox-esr",
    headless: false,
    extraPrefsFirefox: {
      "webgl.force-enabled": true,
      "browser.download.dir": folder,
      "browser.download.folderList": 2,
      "browser.download.alwaysOpenPanel": false, // it would take the focus
    },
  },
};

/** One who reads the page. Each hand presses in its own way; what it reads is the same. */
class Hand {
  constructor(page) {
    this.page = page;
  }
  find = (selector) => this.page.waitForSelector(selector);
  text = (selector) => this.page.$eval(selector, (element) => element.textContent.replace(/\s+/g, " ").trim());
  answer = async (...selectors) => (await Promise.all(selectors.map(this.text))).join(" | ");
  async type(selector, words) {
    await this.press(selector);
    await this.page.keyboard.type(words);
    await this.page.keyboard.press("ArrowDown"); // the first of the list
    await this.page.keyboard.press("Enter");
  }
  /** Until what was drawn last is drawn, and the address says so. */
  still() {
    return this.page.evaluate(() => new Promise((done) => {
      const { map } = document.getElementById("map");
      map.once("idle", () => setTimeout(done, 250));
      map.triggerRepaint();
    }));
  }
  async at(place) {
    await this.still();
    return this.page.evaluate((here) => {
      const element = document.getElementById("map");
      const { left, top } = element.getBoundingClientRect();
      const { x, y } = element.map.project(here);
      return [left + x, top + y];
    }, place);
  }
}

class Mouse extends Hand {
  async press(selector) {
    await (await this.find(selector)).click();
  }
  async area(place) {
    await this.page.evaluate(() => window.scrollTo(0, 0));
    await this.page.mouse.click(...(await this.at(place)));
  }
  async draw() {
    await this.press("#draw");
    for (const corner of RING) await this.area(corner);
    await this.press("#draw");
  }
}

class Finger extends Mouse {
  async press(selector) {
    const element = await this.find(selector);
    // The map stays above, so that what is in the middle may be behind it.
    await element.evaluate((each) => each.scrollIntoView({ block: "end", behavior: "instant" }));
    await element.tap();
  }
  async area(place) {
    await this.page.evaluate(() => window.scrollTo(0, 0));
    await this.page.touchscreen.tap(...(await this.at(place)));
  }
}

class Keys extends Hand {
  /** Go on, or back, with Tab until the element has the focus, and press it. */
  async press(selector) {
    await this.find(selector);
    // Not around the end of the page: after it come the controls of the browser.
    const way = (wanted) => {
      const [from, to] = [document.activeElement, document.querySelector(wanted)];
      if (from === to) return null;
      return from.compareDocumentPosition(to) & Node.DOCUMENT_POSITION_PRECEDING ? "Shift" : "Alone";
    };
    let held;
    for (let tabs = 0; (held = await this.page.evaluate(way, selector)); tabs += 1) {
      if (tabs > 400) throw new Error(`Tab does not reach ${selector}`);
      if (held === "Shift") await this.page.keyboard.down("Shift");
      await this.page.keyboard.press("Tab");
      if (held === "Shift") await this.page.keyboard.up("Shift");
    }
    const kind = await this.page.$eval(selector, ({ tagName, type }) => (tagName === "INPUT" ? type : tagName));
    if (kind === "radio" || kind === "checkbox") await this.page.keyboard.press(" ");
    else if (kind === "BUTTON" || kind === "SUMMARY") await this.page.keyboard.press("Enter");
  }
  /** A map cannot be clicked by keys: what is there is found by its name or code. */
  async area(_, code) {
    await this.type("#search", code);
  }
  /** Nor can an outline be drawn: it is a file. */
  async draw() {
    await (await this.find("#file")).uploadFile(outline);
  }
}

/** Choose a side of the switch, which is drawn by its label. */
const side = async (hand, value) => {
  const selector = `input[name=side][value=${value}]`;
  // Arrows go from one radio button to the next.
  if (!(hand instanceof Keys)) return hand.press(`#side-${value}`);
  await hand.press("input[name=side]:checked");
  while (!(await hand.page.$eval(selector, ({ checked }) => checked))) await hand.page.keyboard.press("ArrowRight");
};
const level = (hand, value) => hand.page.select("#level", value);
/** The file that a button saves, as text. */
const saved = async (hand, button) => {
  await hand.page.evaluate(() => {
    const make = URL.createObjectURL;
    URL.createObjectURL = (blob) => {
      window.saved = blob;
      return make.call(URL, blob);
    };
  });
  await hand.press(button);
  await hand.page.waitForFunction(() => window.saved);
  return hand.page.evaluate(async () => {
    const { saved } = window;
    window.saved = null;
    return saved.type === "image/png" ? `PNG of ${saved.size > 20_000 ? "more" : "less"} than 20 kB` : saved.text();
  });
};

const TRACT = { place: [-71.4128, 41.8239], code: "44007000800" }; // downtown Providence
const BLOCK = { place: [-71.411669, 41.824929], code: "440070008003016" }; // a busy one in it
const STEPS = {
  "it opens": (hand) => hand.answer("#level option:checked", "#jobs", "#mean", "#flow-count"),
  "intervals, which come later": async (hand) => {
    await opened(hand);
    return hand.answer("#commute-of");
  },
  "an area, on the map": async (hand) => {
    await hand.area(TRACT.place, TRACT.code);
    return hand.answer("#chosen-code", "#jobs", "#mean", "#median");
  },
  "its origins": (hand) => hand.answer("#top tr:nth-child(2)", "#top-count"),
  "distance and direction": async (hand) => {
    await hand.press("details:has(#rose-table) summary");
    return hand.answer("#rose-table", "#placed");
  },
  "intervals of mean, median, classes of distance": (hand) => hand.answer("#commute-of", "#distances"),
  "who they are": (hand) => hand.answer("#profile-bars"),
  "who comes, stays, leaves": (hand) => hand.answer("#balance-table"),
  "where residents work": async (hand) => {
    await side(hand, "home");
    return hand.answer("#chosen-code", "#jobs", "#mean", "#top tr:nth-child(2)");
  },
  both: async (hand) => {
    await side(hand, "both");
    return hand.answer("#top tr:nth-child(2)", "#flow-count");
  },
  undo: async (hand) => {
    await hand.still();
    await hand.press("#undo");
    await hand.page.waitForFunction(() => document.querySelector("input[value=home]").checked);
    return hand.answer("#chosen-code", "#jobs");
  },
  reload: async (hand) => {
    await hand.still();
    await hand.page.reload();
    await hand.page.waitForSelector("html[data-ready]");
    await opened(hand);
    return hand.answer("#chosen-code", "#jobs");
  },
  "a town": async (hand) => {
    await side(hand, "work");
    await hand.type("#search", "Warwick");
    return hand.answer("#chosen", "#counts-of", "#jobs");
  },
  "a ZIP area beside it": async (hand) => {
    await hand.press("#several summary");
    await hand.press("#add");
    await hand.type("#search", "02903");
    return hand.answer("#chosen", "#chips", "#jobs");
  },
  "one taken away": async (hand) => {
    await hand.press("#chips button");
    await hand.press("#add");
    return hand.answer("#chosen", "#jobs");
  },
  "beside another choice": async (hand) => {
    await hand.press("#keep");
    await hand.type("#search", TRACT.code);
    return hand.answer("#comparison-table");
  },
  "beside another tract, with intervals of differences": async (hand) => {
    await hand.press("#keep");
    await hand.type("#search", "44007000600");
    return hand.answer("#comparison-table");
  },
  "an outline": async (hand) => {
    await hand.press("#end-comparison");
    await hand.press("#clear");
    await hand.page.evaluate((ring) => document.getElementById("map").map.fitBounds([ring[0], ring[2]], { animate: false, padding: 90 }), RING);
    await hand.draw();
    await hand.page.waitForFunction(() => document.getElementById("chosen").innerText.match(/outline|Polygon|geojson/i));
    // A click is at a pixel, so that corners are not exactly those of the file.
    const blocks = Number((await hand.text("#counts-of")).match(/[\d,]+/)[0].replaceAll(",", ""));
    return `about ${Math.round(blocks / 100)} hundred blocks`;
  },
  "an outline of a file": async (hand) => {
    await (await hand.find("#file")).uploadFile(outline);
    await hand.page.waitForFunction(() => document.getElementById("chosen").innerText.includes("geojson"));
    return hand.answer("#chosen", "#jobs", "#mean");
  },
  "five kilometres around a tract": async (hand) => {
    await hand.type("#search", TRACT.code);
    await hand.press("#around-chosen");
    return hand.answer("#counts-of", "#jobs", "#balance-table");
  },
  "zoom to it": async (hand) => {
    await hand.press("#zoom");
    await hand.still();
    return hand.page.evaluate(() => (document.getElementById("map").map.getZoom() > 8.5 ? "nearer" : "far"));
  },
  "who earns most": async (hand) => {
    await hand.page.select("#count", "SE03");
    return hand.answer("#summary .counted", "#jobs");
  },
  "an external zone": async (hand) => {
    await hand.page.select("#count", "S000");
    await hand.press("#external-zones-table button");
    return hand.answer("#chosen", "#jobs", "#top tr:nth-child(2)");
  },
  "finer areas, with what is noise": async (hand) => {
    await hand.press("#clear");
    await level(hand, "bgrp");
    if (await hand.page.$eval("#warning", ({ open }) => open)) await hand.press("#warning-show");
    await hand.still();
    return hand.answer("#level option:checked", "#noise", "#flow-count");
  },
  "the finest areas": async (hand) => {
    await level(hand, "tabblk2010");
    if (await hand.page.$eval("#warning", ({ open }) => open)) await hand.press("#warning-show");
    await hand.page.waitForFunction(() => document.getElementById("level").value === "tabblk2010");
    await hand.still();
    return hand.answer("#level option:checked", "#jobs");
  },
  "a block, on the map": async (hand) => {
    await hand.page.evaluate((center) => document.getElementById("map").map.jumpTo({ center, zoom: 15 }), BLOCK.place);
    await hand.area(BLOCK.place, BLOCK.code);
    const answer = await hand.answer("#chosen", "#jobs", "#commute-of"); // which says why there is no interval
    await hand.press("#clear");
    await hand.press("#zoom");
    return answer;
  },
  "many lines as few": async (hand) => {
    await level(hand, "trct");
    await hand.page.$eval("#threshold", (slider) => {
      slider.value = 0;
      slider.dispatchEvent(new Event("input"));
    });
    await hand.still();
    const [flows, lines] = (await hand.text("#flow-count")).split("They are drawn as ");
    return lines ? `${flows}on fewer lines` : "each on its own line"; // how many depends on the size of the map
  },
  "names and densities put away": async (hand) => {
    await hand.press("#labels");
    await hand.press("#density");
    return hand.answer("#legend-classes");
  },
  "areas, CSV": async (hand) => (await saved(hand, "#save-csv")).split("\n").slice(0, 2).join(" / "),
  "areas, GeoJSON": async (hand) => `${JSON.parse(await saved(hand, "#save-geojson")).features.length} features`,
  "picture, PNG": (hand) => saved(hand, "#save-png"),
  "another release": async (hand) => {
    await side(hand, "home");
    await (await hand.find("#other-file")).uploadFile(resolve(other));
    await hand.page.waitForSelector("#other:not([hidden])");
    return hand.answer("#other-words", "#other-table tr:nth-child(2)"); // with intervals of differences
  },
  "dark colours": async (hand) => {
    await hand.press("#theme");
    return hand.page.evaluate(() => document.documentElement.dataset.theme);
  },
};

/** Opens what lies beside the page, or waits until it is opened. */
const opened = async (hand) => {
  if (await hand.page.$eval("#open-intervals", ({ hidden }) => !hidden)) await hand.press("#open-intervals");
  await hand.page.waitForFunction(() => !document.getElementById("loading").innerText && document.getElementById("open-intervals").hidden);
};

/** Steps of which pictures are taken, with the part of the panel that they show. */
const PICTURES = { "beside another tract, with intervals of differences": "#comparison", "five kilometres around a tract": "#chosen", "dark colours": "#other" };

async function walk(browser, name, way, answers, wrong) {
  const page = await browser.newPage();
  // Firefox knows fingers, and no phone: its viewport is a phone's.
  await page.setViewport(way !== "phone" ? LAPTOP : name === "Chromium" ? { ...PHONE, hasTouch: true, isMobile: true } : PHONE);
  page.on("pageerror", (error) => wrong.push(`${name}, ${way}: ${error}`));
  page.on("request", (request) => {
    const own = request.url().startsWith(new URL("map/", address).href) || request.url().split("#")[0] === address;
    if (/^https?:/.test(request.url()) && !own) wrong.push(`${name}, ${way}: asks for ${request.url()}`);
  });
  await page.goto(address);
  await page.waitForSelector("html[data-ready]");
  const hand = new { mouse: Mouse, keys: Keys, phone: Finger }[way](page);
  for (const [step, take] of Object.entries(STEPS)) {
    try {
      const answer = await take(hand);
      (answers[step] ??= {})[`${name}, ${way}`] = answer;
      if (!(await page.evaluate(() => typeof axe === "object"))) await page.evaluate(axe);
      const barriers = await page.evaluate(async () =>
        (await axe.run(document, { resultTypes: ["violations"] })).violations.map(({ id }) => id));
      barriers.forEach((id) => wrong.push(`${name}, ${way}, ${step}: ${id}`));
      if (images && step in PICTURES) {
        await page.$eval(PICTURES[step], (part) => part.scrollIntoView({ behavior: "instant" }));
        await page.$eval("#panel", (panel) => panel.scrollBy(0, -70)); // below what always stands there
        await hand.still();
        await page.screenshot({ path: join(images, `walk_${name}_${way}_${step.replaceAll(" ", "_")}.png`) });
      }
    } catch (error) {
      wrong.push(`${name}, ${way}, ${step}: ${error.message}`);
      await page.screenshot({ path: join(folder, `${name}-${way}-${step.replaceAll(" ", "_")}.png`) }).catch(() => {});
    }
  }
  await page.close();
}

const answers = {};
const wrong = [];
const only = process.env.ONLY?.split(",");
for (const [name, { name: program, ...options }] of Object.entries(BROWSERS)) {
  if (only && !only.includes(name)) continue;
  const executablePath = execFileSync("which", [program], { encoding: "utf8" }).trim();
  const browser = await puppeteer.launch({ executablePath, protocolTimeout: 600_000, ...options });
  console.log(await browser.version());
  for (const way of (process.env.WAYS ?? "mouse,keys,phone").split(",")) await walk(browser, name, way, answers, wrong);
  await browser.close();
}
console.log("| step | walks | answer |\n| --- | --- | --- |");
for (const [step, found] of Object.entries(answers)) {
  const different = [...new Set(Object.values(found))];
  console.log(`| ${step} | ${Object.keys(found).length} | ${different[0].slice(0, 160)} |`);
  if (different.length > 1) wrong.push(`${step}: ${JSON.stringify(found, null, 1)}`);
}
console.log(wrong.length ? `wrong:\n${wrong.join("\n")}` : "nothing differs, no barrier, no request");
console.log(folder);
process.exitCode = wrong.length ? 1 : 0;
