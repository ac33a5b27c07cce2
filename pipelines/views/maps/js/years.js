// The years of a map: releases of the same jobs and areas, in this file or on its site. Each is a data set of its own, read when
// the reader first wants it; the page shows one of them, or what changed since an earlier one.

import { fetchMap, mapOf, published, readOtherMap } from "./compare.js";
import { readData } from "./data.js";
import { byId } from "./dom.js";
import { FileError } from "./geojson.js";
import { say, sentences } from "./phrases.js";

const ABOUT = ["note", "title", "certificate", "accuracy", "source"]; // elements that speak of one release

/** What a page says of its release, by element. */
const aboutOf = (page) => ABOUT.map((id) => document.importNode(page.getElementById(id), true).childNodes);

export class Years {
  #all = new Map(); // by year: {read: data and words, data, about}; the last two once it was read
  #withdrawn = [];
  #titles;

  /** `own` is the data of the release that the page opens with. */
  constructor(own) {
    this.own = own;
    this.#titles = [document.title, own.meta.release.name];
    this.#all.set(this.first, { about: aboutOf(document) });
    for (const { content, dataset } of document.querySelectorAll("template")) {
      const read = async () => ({ data: await readData(content, false, null, this.own), about: aboutOf(content) });
      this.#all.set(Number(dataset.year), { read });
    }
  }

  /** The year of the release that the page opens with. */
  get first() {
    return this.own.meta.release.year;
  }

  /** All of them, in order. */
  get list() {
    return [...this.#all.keys()].sort((a, b) => a - b);
  }

  get several() {
    return this.#all.size > 1;
  }

  has(year) {
    return this.#all.has(year);
  }

  /** The data of a year; null until they were read. */
  data(year) {
    return year === this.first ? this.own : (this.#all.get(year).data ?? null);
  }

  /** Read a year, once. */
  async read(year) {
    const entry = this.#all.get(year);
    if (this.data(year)) return;
    const { data, about } = await entry.read();
    Object.assign(entry, { data: { ...data, name: data.meta.release.name }, about });
  }

  /** Find out which years of this release are published on the site of the page, which lists them at an address. */
  async find(list) {
    if (this.several || !list) return;
    const entries = await published(list);
    const own = entries.find((entry) => mapOf(entry) === location.pathname);
    const alike = (entry) => ["name", "state", "job_type"].every((key) => entry[key] === own?.[key]);
    const versions = entries.filter((entry) => alike(entry) && entry.year !== this.first);
    for (const entry of versions.filter(({ status }) => status === "complete")) {
      if (!this.has(entry.year)) this.#all.set(entry.year, { read: () => this.#fetched(entry) }); // of the newest version
    }
    const gone = versions.filter(({ status, year }) => status === "withdrawn" && !this.has(year)).map(({ year }) => year);
    this.#withdrawn = [...new Set(gone)].sort((a, b) => a - b);
  }

  async #fetched(entry) {
    const page = await fetchMap(mapOf(entry));
    const data = await readOtherMap(page, !this.own.meta.later.length);
    if (data.meta.release.common_ground !== this.own.meta.release.common_ground) throw new FileError(say("year_apart"));
    return { data, about: aboutOf(page) };
  }

  /** Have the page speak of a release; and show the slider with its year, the year since which changes are shown, and what to know of it. */
  show({ year, since, change }, data) {
    const { list, first } = this;
    byId("years").hidden = !this.several;
    if (!this.several) return;
    const { about } = this.#all.get(year);
    if (byId("years").dataset.shown !== String(year)) {
      ABOUT.forEach((id, at) => byId(id).replaceChildren(...Array.from(about[at], (node) => node.cloneNode(true))));
      byId("years").dataset.shown = String(year);
      const [title, name] = this.#titles;
      document.title = title.replace(name, () => data.meta.release.name);
    }
    const words = change ? say("year_since", change) : String(year);
    Object.assign(byId("year"), { max: list.length - 1, value: list.indexOf(year) });
    byId("year").setAttribute("aria-valuetext", words);
    byId("year-words").textContent = words;
    [byId("first-year").textContent, byId("last-year").textContent] = [list[0], list.at(-1)].map(String);
    if (byId("since").options.length !== list.length + 1) {
      byId("since").replaceChildren(byId("since").options[0], ...list.map((each) => new Option(String(each), String(each))));
    }
    byId("since").value = since ?? "";
    for (const option of byId("since").options) option.disabled = Number(option.value) >= year;
    byId("year-notes").textContent = sentences(
      since !== null && !change && say("since_later", { since: String(since), year: String(year) }),
      year !== first && data.finest.id !== this.own.finest.id && say("year_coarser", { year: String(year), many: data.finest.many }),
      this.#withdrawn.length > 0 && say("years_withdrawn", { years: this.#withdrawn.join(", ") }),
    );
  }
}
