// Finding an area by its code or its name, and the list of what was found.

import { byId, text, wantsMore } from "./dom.js";
import { say } from "./phrases.js";
import { areaCode, areaName } from "./places.js";

const MOST_FOUND = 20;

// What is compared. Spaces and capitals do not count; in names, neither do accents and punctuation.
const plainCode = (words) => words.replace(/\s/g, "").toLowerCase();
const plainName = (words) => words.toLowerCase().normalize("NFD").replace(/[^\p{L}\p{N}]/gu, "");

const plainWords = (words) => words.split(/\s+/).map(plainName).filter(Boolean);

/** Codes and names of a level as they are compared; made once. External zones have those of their own. */
function plainTexts(level) {
  const zone = (unit) => level.externalZones.get(unit);
  level.plain ??= {
    codes: Array.from(level.codes, (code, unit) => plainCode(zone(unit)?.code ?? code)),
    names: Array.from(level.codes, (_, unit) => plainName(zone(unit)?.name ?? level.names[unit] ?? "")),
  };
  return level.plain;
}

/**
 * Areas whose code or name is, begins with or else contains what was typed, in this order; coarse ones first, then those
 * that cut across the levels, external zones last.
 *
 * Several words may stand anywhere in a name. The word for a level may stand before a code or a name: "tract
 * 44007000800". Returns {areas: parts of a selection, sure}; sure is false where it is open which of several is meant.
 */
function search(data, typed) {
  const ranked = [[], [], []]; // is, begins, contains
  const byCode = new Set();
  // An external zone is the same at all levels, and found once.
  const levels = [...data.levels, ...data.layers];
  const groups = [...levels.map((level) => [level, level.one, false]), [data.levels[0], say("external_zone"), true]];
  for (const [level, kind, ofZones] of groups) {
    const { codes, names } = plainTexts(level);
    const own = plainWords(kind);
    const word = own.join("");
    const without = (text) => (text.startsWith(word) ? [text, text.slice(word.length)] : [text]).filter(Boolean);
    const [codeParts, nameParts] = [without(plainCode(typed)), without(plainName(typed))];
    const all = plainWords(typed);
    const wordLists = [all, all.filter((each) => !own.includes(each))].filter((list) => list.length);
    const rankOf = (text, parts, contains) => {
      if (parts.some((part) => text === part)) return 0;
      if (parts.some((part) => text.startsWith(part))) return 1;
      return contains(text) ? 2 : 3;
    };
    const inCode = (code) => codeParts.some((part) => code.includes(part));
    const inName = (name) => wordLists.some((list) => list.every((each) => name.includes(each)));
    for (let unit = 0; unit < codes.length; unit++) {
      if (level.externalZones.has(unit) !== ofZones) continue;
      const ofCode = rankOf(codes[unit], codeParts, inCode);
      const rank = Math.min(ofCode, names[unit] ? rankOf(names[unit], nameParts, inName) : 3);
      if (rank > 2 || ranked[rank].length === MOST_FOUND) continue;
      const area = { kind: level.areaOf ? "layer" : "area", level, unit };
      ranked[rank].push(area);
      if (ofCode === rank) byCode.add(area);
    }
  }
  const best = ranked.findIndex((areas) => areas.length > 0);
  const areas = ranked.flat().slice(0, MOST_FOUND);
  // The beginning of a code means the coarsest area that has it; that of a name may be meant of any.
  const sure = best >= 0 && (ranked[best].length === 1 || (best < 2 && byCode.has(areas[0])));
  return { areas, sure };
}

/**
 * The field with its list below: arrows go through the list, Enter chooses, with Shift it adds, Escape closes the list.
 *
 * `choose(part, add)` empties it.
 */
export class SearchField {
  #data;
  #choose;
  #whole;
  #areas = [];
  #active = -1; // of the areas
  #field = byId("search");
  #list = byId("found");

  /** `whole` reads the levels that are not here yet; the field is told of them by `setData`. */
  constructor(data, choose, whole) {
    [this.#data, this.#choose, this.#whole] = [data, choose, whole];
    if (data.externalZones.size || [...data.levels, ...data.layers].some(({ names }) => names.length)) {
      byId("search-label").textContent = say("search_name");
      this.#field.placeholder = say("search_letters");
    }
    this.#field.addEventListener("input", () => {
      const { areas } = this.#look();
      if (this.#field.value.trim() && !areas.length && this.#data.meta.later.length) this.#whole(() => this.#look());
    });
    this.#field.addEventListener("keydown", (event) => this.#press(event));
    this.#field.addEventListener("blur", () => this.#show([]));
    this.#list.addEventListener("mousedown", (event) => event.preventDefault()); // which would take the focus
    this.#list.addEventListener("click", (event) => {
      const option = event.target.closest("li");
      const add = wantsMore(event) || event.target.matches(".add");
      if (option) this.#choose(this.#areas[option.dataset.at], add);
    });
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit(event.submitter === byId("search-add") || byId("add").checked);
    });
  }

  setData(data) {
    this.#data = data;
    if (this.#field.value && document.activeElement === this.#field) this.#look();
  }

  /** Empty the field. */
  clear() {
    this.#field.value = "";
    this.#say("");
    this.#show([]);
  }

  #look() {
    const { areas, sure } = search(this.#data, this.#field.value);
    this.#say(areas.length || !this.#field.value.trim() ? "" : say("not_found"));
    this.#show(areas);
    return { areas, sure };
  }

  async #submit(add) {
    if (this.#active >= 0) return this.#choose(this.#areas[this.#active], add);
    const { areas, sure } = this.#look();
    if (!sure && this.#field.value.trim() && this.#data.meta.later.length) {
      if (await this.#whole(() => this.#submit(add))) this.#submit(add);
      return;
    }
    if (sure) return this.#choose(areas[0], add);
    this.#say(areas.length ? say("several_found") : say("not_found"));
    this.#field.focus(); // the list closes without it
  }

  #say(words) {
    byId("not-found").textContent = words;
    byId("not-found").hidden = !words;
  }

  #show(areas) {
    this.#areas = areas;
    this.#list.replaceChildren(
      ...areas.map(({ level, unit }, at) => {
        const option = text("li", areaName(level, unit));
        option.append(text("span", areaCode(level, unit), "code"));
        const more = text("span", say("add_found"), "add"); // as Shift and Enter do
        more.ariaHidden = "true";
        option.prepend(more);
        option.setAttribute("role", "option");
        option.id = `found-${at}`;
        option.dataset.at = at;
        return option;
      }),
    );
    this.#list.hidden = !areas.length;
    this.#field.setAttribute("aria-expanded", areas.length > 0);
    this.#mark(-1);
  }

  #mark(at) {
    this.#active = at;
    [...this.#list.children].forEach((option, i) => option.setAttribute("aria-selected", i === at));
    this.#list.children[at]?.scrollIntoView({ block: "nearest" });
    if (at < 0) this.#field.removeAttribute("aria-activedescendant");
    else this.#field.setAttribute("aria-activedescendant", `found-${at}`);
  }

  #press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && event.shiftKey) {
      event.preventDefault();
      this.#submit(true);
    } else if (event.key === "Escape" && this.#areas.length) {
      event.stopPropagation(); // the chosen area stays
      this.#show([]);
    } else if (step) {
      event.preventDefault(); // the cursor stays
      if (!this.#areas.length) this.#look();
      const [n, from] = [this.#areas.length, this.#active];
      if (n) this.#mark(from < 0 && step < 0 ? n - 1 : (from + step + n) % n);
    }
  }
}
