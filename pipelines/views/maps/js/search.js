// Finding an area by its code or its name, and the list of what was found.

import { byId, text, wantsMore } from "./dom.js";
import { say } from "./phrases.js";
import { areaCode, areaName } from "./places.js";

// The same steps as pipelines/views/search.py takes for pages and API, with its words; tests ask both the same.
const [IS, SHORT, OTHER_KIND, BEGINS, NAMED, CONTAINS, ALIKE, NOT] = [0, 1, 2, 3, 4, 5, 6, 7];
const LEAST = 4; // letters of a name that may have one wrong

/** Words without capitals, accents and punctuation. */
function plainWords({ letters }, text) {
  const lower = text.normalize("NFD").toLowerCase().replace(/\p{M}/gu, "");
  const plain = lower.replace(/[^\0-\x7f]/gu, (letter) => letters[letter] ?? letter).replace(/['\u2018\u2019`.]/g, "");
  return plain.match(/[\p{L}\p{N}]+/gu) ?? [];
}

const plainCode = (text) => text.replace(/\s/g, "").toLowerCase();
const spelledOut = ({ long }, list) => list.map((word) => (Object.hasOwn(long, word) ? long[word] : word));
const plainName = (words, name) => spelledOut(words, plainWords(words, name)).join("");

/** A name without what stands in brackets, or after a comma, behind it, and without words such as city. */
function plainShort(words, name) {
  const list = plainWords(words, name.replace(/[(,].*/s, "").trim() || name);
  if (list.length > 1 && words.kinds.includes(list.at(-1))) list.pop();
  return spelledOut(words, list).join("");
}

/** Codes and names of a level as they are compared; made once. External zones have those of their own. */
function plainTexts(words, level) {
  if (level.plain) return level.plain;
  const zone = (unit) => level.externalZones.get(unit);
  const names = Array.from(level.codes, (_, unit) => zone(unit)?.name ?? level.names[unit] ?? "");
  level.plain = {
    codes: Array.from(level.codes, (code, unit) => plainCode(zone(unit)?.code ?? code)),
    names: names.map((name) => plainName(words, name)),
    shorts: names.map((name) => plainShort(words, name)),
  };
  return level.plain;
}

/** What was typed, as it is compared: with and without the words for a level. */
function plainTyped(words, typed, kind) {
  const [own, all, code] = [plainWords(words, kind), plainWords(words, typed), plainCode(typed)];
  const word = own.join("");
  const codes = [code, code.startsWith(word) ? code.slice(word.length) : code].filter(Boolean);
  const lists = [all, all.filter((each) => !own.includes(each))].filter((list) => list.length);
  const headOf = (list, n) => {
    const others = list.slice(n + 1);
    const telling = others.filter((each) => !words.kinds.includes(each));
    return { head: list.slice(0, n + 1).join(""), others, telling, last: n + 1 === list.length };
  };
  const forms = lists.flatMap((list) => [list, spelledOut(words, list)]).map((list) => ({
    list,
    whole: list.join(""),
    heads: list.map((_, n) => headOf(list, n)),
  }));
  return { codes, forms };
}

/** Whether at most one letter is wrong, missing or too many, or two neighbours are exchanged. */
function withinOneEdit(a, b) {
  let at = 0;
  while (at < a.length && a[at] === b[at]) at++;
  const [x, y] = [a.slice(at), b.slice(at)];
  const exchanged = x.length > 1 && x[0] === y[1] && x[1] === y[0] && x.slice(2) === y.slice(2);
  return a === b || x.slice(1) === y.slice(1) || x.slice(1) === y || x === y.slice(1) || exchanged;
}

/** Whether a short name is like what was typed, or begins like it. */
function isLike(head, short, begun) {
  if (head.length < LEAST || !short) return false;
  const ends = begun ? [head.length - 1, head.length, head.length + 1] : [];
  return withinOneEdit(head, short) || ends.some((end) => withinOneEdit(head, short.slice(0, end)));
}

const hasAll = (text, list) => text !== "" && list.every((each) => text.includes(each));

function rankOfCode(code, { codes }) {
  if (codes.includes(code)) return IS;
  if (codes.some((each) => code.startsWith(each))) return BEGINS;
  return codes.some((each) => code.includes(each)) ? CONTAINS : NOT;
}

function rankOfName(name, short, { forms }) {
  if (forms.some(({ whole }) => name === whole)) return IS;
  const heads = forms.flatMap((form) => form.heads).filter(({ head }) => head === short);
  if (heads.some(({ others }) => hasAll(name, others))) return SHORT;
  if (heads.some(({ telling }) => hasAll(name, telling))) return OTHER_KIND;
  if (forms.some(({ whole }) => name.startsWith(whole))) return BEGINS;
  if (forms.some(({ list }) => hasAll(short, list))) return NAMED;
  return forms.some(({ list }) => hasAll(name, list)) ? CONTAINS : NOT;
}

/** The same where one letter may be wrong. */
const rankAlike = (name, short, { forms }) =>
  forms.some(({ heads }) => heads.some(({ head, telling, last }) => isLike(head, short, last) && hasAll(name, telling))) ? ALIKE : NOT;

/**
 * Areas by code or name: those that are called so; those whose short name is this, or this but for a word such as city; what
 * begins with it, has it in its short name, or anywhere. Among equals coarse ones come first, then those that cut across the levels, external zones last. If
 * there is nothing, names like it.
 *
 * Several words may stand anywhere in a name. The word for a level may stand before a code or a name: "tract
 * 44007000800". Returns {areas: parts of a selection, number: of all found, sure, alike}; sure is false where it is open
 * which of several is meant.
 */
export function search(data, typed) {
  const words = data.meta.search;
  // An external zone is the same at all levels, and found once.
  const levels = [...data.levels, ...data.layers];
  const groups = [...levels.map((level) => [level, level.one, false]), [data.levels[0], say("external_zone"), true]].map(
    ([level, kind, ofZones]) => ({ level, ofZones, plain: plainTexts(words, level), asked: plainTyped(words, typed, kind) }),
  );
  const ranked = (rankOf) => {
    const found = Array.from({ length: NOT }, () => []);
    for (const { level, ofZones, plain, asked } of groups) {
      for (let unit = 0; unit < level.codes.length; unit++) {
        if (level.externalZones.has(unit) !== ofZones) continue;
        const { rank, byCode } = rankOf(plain, unit, asked);
        if (rank < NOT) found[rank].push({ part: { kind: level.areaOf ? "layer" : "area", level, unit }, byCode });
      }
    }
    return found;
  };
  let found = ranked(({ codes, names, shorts }, unit, asked) => {
    const ofCode = rankOfCode(codes[unit], asked);
    const rank = Math.min(ofCode, names[unit] ? rankOfName(names[unit], shorts[unit], asked) : NOT);
    return { rank, byCode: rank === ofCode };
  });
  const alike = found.every((list) => !list.length);
  if (alike) found = ranked(({ names, shorts }, unit, asked) => ({ rank: rankAlike(names[unit], shorts[unit], asked), byCode: false }));
  const best = found.findIndex((list) => list.length > 0);
  const all = found.flat();
  // The beginning of a code means the coarsest area that has it; that of a name may be meant of any.
  const sure = !alike && (all.length === 1 || (best <= BEGINS && (found[best].length === 1 || found[best][0].byCode)));
  return { areas: all.slice(0, words.most).map(({ part }) => part), number: all.length, sure, alike: alike && best >= 0 };
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
      const { areas, alike } = this.#look();
      if (this.#field.value.trim() && (!areas.length || alike) && this.#data.meta.later.length) this.#whole(() => this.#look());
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
    const found = search(this.#data, this.#field.value);
    const { areas, number } = found;
    if (!areas.length && this.#field.value.trim()) this.#say(say("not_found"));
    else if (found.alike) this.#say(say("alike_found"));
    else this.#say(number > areas.length ? say("first_found", { n: areas.length, number }) : "");
    this.#show(areas);
    return found;
  }

  async #submit(add) {
    if (this.#active >= 0) return this.#choose(this.#areas[this.#active], add);
    const { areas, sure, alike } = this.#look();
    if (!sure && this.#field.value.trim() && this.#data.meta.later.length) {
      if (await this.#whole(() => this.#submit(add))) this.#submit(add);
      return;
    }
    if (sure) return this.#choose(areas[0], add);
    if (areas.length && !alike) this.#say(say("several_found"));
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
