// Two choices side by side, and this release beside another: the data of another map's file.

import { EVERYBODY, readData } from "./data.js";
import { byId, tableRow, text } from "./dom.js";
import { added, balanceDraws, commuteDraws, less, partnerDraws, shareDraws } from "./draws.js";
import { balanceOf, commutes, mapped, sumsOf } from "./flows.js";
import { FileError } from "./geojson.js";
import { TOP, areaButton, noIntervals, zonesOfWork } from "./panel.js";
import { say, sentences, whole } from "./phrases.js";
import { areaName, capital } from "./places.js";
import { between, bracketed, oneDecimal, percent } from "./scale.js";
import { isNoise, partKey, partOfKey, selectionName, selectionOf } from "./selection.js";

/** What is said of a choice, or of the whole region: numbers, and where draws tell what they are in each. */
function factsOf(data, selection, column) {
  const whole_ = selection ?? wholeRegion(data);
  const balance = balanceOf(data, whole_, column);
  const { come, stay, work, live, leave, there, beyond } = balanceDraws(data, whole_, column);
  const exact = !data.draws?.estimated.includes(column);
  /** @returns {{words: string, value: number, draws: ArrayLike<number> | null, length?: boolean, exact?: boolean}} */
  const row = (words, value, draws, more = {}) => ({ words, value, draws, ...more });
  const flow = { flow: true };
  const elsewhere = (...numbers) => (data.zonesOfWork.length ? [row(say("work_in_zones", { zones: zonesOfWork(data) }), ...numbers, flow)] : []);
  const lengths = ["work", "home"].flatMap((side) => {
    const { mean, median } = commutes(data, side, whole_, column, 1);
    const draws = commuteDraws(data, side, whole_, column, 1);
    return [
      row(say("mean_commute", { which: side }), mean, draws?.mean ?? null, { length: true }),
      row(say("median"), median, draws?.median ?? null, { length: true }),
    ];
  });
  return {
    name: selection ? selectionName(selection, data.finest) : say("whole_region"),
    noise: isNoise(whole_),
    rows: [
      row(say("work_here"), balance.work, exact ? null : work, { exact }),
      row(say("come_here"), balance.come, come, flow),
      ...elsewhere(balance.there, there),
      row(say("live_here_too"), balance.stay, stay, flow),
      row(say("live_here"), balance.live, live),
      row(say("leave_here"), balance.leave, leave, flow),
      ...elsewhere(balance.beyond, beyond),
      ...lengths,
    ],
    profiles: Object.fromEntries(["work", "home"].map((side) => [side, sumsOf(data, side, whole_)])),
    shares: { work: {}, home: shareDraws(data, "home", whole_) },
  };
}

/** All areas of the region, without external zones. */
export function wholeRegion(data) {
  const level = data.levels[0];
  const units = Array.from(level.codes.keys()).filter((unit) => !level.externalZones.has(unit));
  data.region ??= selectionOf(data, units.map((unit) => ({ kind: "area", level, unit })));
  return data.region;
}

/** Two choices side by side, and the first less the second. */
export function showComparison(data, { side, column, selection, other, unit }) {
  byId("comparison").hidden = !other;
  if (!other) return;
  const facts = [selection, other].map((each) => factsOf(data, each, column));
  const lengths = (km) => oneDecimal.format(km / unit.km);
  const cell = (value, draws, words, after, className) => {
    const made = text("td", Number.isNaN(value) ? "–" : words(value) + after, className);
    const ends = data.draws?.ends(draws);
    if (ends) made.append(text("span", between(ends, words), "code"));
    return made;
  };
  const tr = (words, rows, format, after, afterDifference = after) => {
    const made = tableRow("td", [words]);
    const [a, b] = rows;
    const grey = (...which) => (a.flow && which.some(({ noise }) => noise) ? "muted" : "");
    rows.forEach((row, at) => made.append(cell(row.value, row.draws, format, after, grey(facts[at]))));
    // Draws are of all areas together: those of the same number go with each other.
    const difference = a.draws && b.draws ? less(a.draws, b.draws) : null;
    made.append(cell(a.value - b.value, difference, (value) => withSign(value, format), afterDifference, grey(...facts)));
    return made;
  };
  const rows = facts[0].rows.map((row, at) =>
    tr(row.words, facts.map((each) => each.rows[at]), row.length ? lengths : whole.format, row.length ? ` ${unit.id}` : ""),
  );
  const who = side === "home" ? "home" : "work";
  const columns = data.meta.counts.filter(({ attribute }) => attribute).flatMap((group) => group.columns);
  const profile = columns.map(({ id, words }) => {
    const shares = facts.map(({ profiles: { [who]: sums }, shares: { [who]: draws } }) => ({
      value: sums[EVERYBODY] ? sums[id] / sums[EVERYBODY] : 0,
      draws: draws[id] ?? null,
    }));
    return tr(capital(words), shares, percent, "\u00a0%", "");
  });
  byId("comparison-table").replaceChildren(tableRow("th", [say("number_head"), ...facts.map(({ name }) => name), say("difference_head")]), ...rows, ...profile);
  const all = facts.flatMap((each) => each.rows);
  const lacking = data.draws && all.some(({ draws, exact, value }) => !draws && !exact && !Number.isNaN(value));
  byId("comparison-words").textContent = sentences(
    say("comparison_shares", { which: who }),
    all.some(({ draws }) => draws) && say("comparison_intervals"),
    lacking && say("comparison_without"),
    data.draws && !data.draws.estimated.length && say("comparison_exact"),
    facts.some(({ noise }) => noise) && say("comparison_noise"),
  );
}

const parsed = (words) => new DOMParser().parseFromString(words, "text/html"); // which runs nothing of it

/** The data of another map, from the text of its file. */
export async function readOtherMap(words) {
  const page = parsed(words);
  if (page.querySelector("[data-address]")) {
    throw new FileError(say("map_in_parts"));
  }
  try {
    const other = await readData(page, true);
    return { ...other, name: other.meta.release?.name ?? page.title };
  } catch {
    throw new FileError(say("no_other_map"));
  }
}

/** Other versions on the site of this page that can be used: {title, address: of its map}; none where it does not say. */
export async function publishedMaps(list) {
  try {
    const { releases } = await (await fetch(list)).json();
    const usable = releases.filter(({ status }) => status === "complete");
    return usable
      .map(({ name, version, title }) => ({
        title: say("version_of", { title: title ?? name, version }),
        address: `/releases/${name}/${version}/map`,
      }))
      .filter(({ address }) => address !== location.pathname);
  } catch {
    return [];
  }
}

/** The data of another map of the site; of one in parts, from its one file. */
export async function fetchOtherMap(address) {
  let words;
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new FileError(say("answered", { status: String(answer.status) }));
    words = await answer.text();
  } catch (error) {
    throw error instanceof FileError ? error : new FileError(say("no_answer"));
  }
  const whole = parsed(words).getElementById("one-file");
  return whole ? fetchOtherMap(new URL(whole.getAttribute("href"), new URL(address, location.href)).href) : readOtherMap(words);
}

/** The same choice in another map; null where it lacks an area of it. */
function sameChoice(data, other, selection) {
  const parts = selection.parts.map((part) => {
    if (part.kind !== "file") return partOfKey(other, partKey(part));
    const number = new Map(other.finest.codes.map((code, unit) => [code, unit]));
    const units = part.units.map((unit) => number.get(data.finest.codes[unit]) ?? -1);
    return units.includes(-1) ? null : { ...part, units };
  });
  return parts.includes(null) ? null : selectionOf(other, parts);
}

/**
 * This release less another, area by area of a level: {values, others, jobs: sums of both, beyond: jobs of the other in
 * areas that are not here, intervals, known: whether draws tell of the values here}, or {problem: words}. `own` are the values
 * in each draw, where they are known.
 */
export function differencesOf(data, other, { side, selection, level, column }, values, own) {
  const theirs = other.levels.find(({ id }) => id === level.id);
  if (!theirs) return { problem: say("no_level", { level: level.one }) };
  if (!(column in other.counts)) return { problem: say("no_count") };
  const same = selection && sameChoice(data, other, selection);
  if (selection && !same) return { problem: say("no_areas") };
  const found = mapped(other, side, same, theirs, column);
  const number = new Map(level.codes.map((code, unit) => [code, unit]));
  const here = (unit) => number.get(theirs.codes[unit]);
  const others = new Float64Array(level.codes.length);
  let beyond = 0;
  found.forEach((jobs, unit) => {
    if (here(unit) === undefined) beyond += jobs;
    else others[here(unit)] += jobs;
  });
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  const lists = partnerDraws(other, side, same, theirs, column).values;
  return {
    values: values.map((jobs, unit) => jobs - others[unit]),
    others,
    beyond,
    sums: [sum(values), sum(found)],
    known: Boolean(own),
    intervals: own && lists ? differenceIntervals(data.draws, own, other.draws, lists, here) : null,
  };
}

/** Intervals of numbers here, there, and of their differences, by unit, and of all units together: {of: unit -> three, all: three}. */
function differenceIntervals(draws, own, otherDraws, lists, here) {
  const at = new Map(lists.map((list, unit) => [here(unit), list]));
  const none = new Float64Array(otherDraws.n); // it does not have the area
  const fewer = draws.n < otherDraws.n ? draws : otherDraws;
  // Draws of two releases are independent of each other.
  const three = (a, b) => [draws.ends(a), otherDraws.ends(b), fewer.ends(less(a, b))];
  return { of: (unit) => three(own[unit], at.get(unit) ?? none), all: three(own.reduce(added), lists.reduce(added)) };
}

/** A difference; none where it is rounded to 0. */
function withSign(value, format) {
  const words = format(Math.abs(value));
  return (/[1-9]/.test(words) ? (value > 0 ? "+" : "−") : "") + words;
}
const signed = (value) => withSign(value, whole.format);

/** This release beside another: totals, and where they differ most. */
export function showOther(data, other, differences, values, state, choose) {
  byId("other").hidden = !other;
  if (!other) return;
  const { level } = state;
  byId("other-title").textContent = say("beside", { name: other.name });
  const { problem, others, values: by, intervals } = differences;
  byId("other-table").hidden = Boolean(problem);
  byId("other-words").textContent = problem ?? otherWords(data, other, differences, state);
  if (problem) return;
  const units = Array.from(by.keys()).filter((unit) => by[unit] !== 0 && !level.externalZones.has(unit));
  const shown = units.sort((a, b) => Math.abs(by[b]) - Math.abs(by[a])).slice(0, TOP);
  byId("other-table").classList.toggle("of-noise", Boolean(level.noise && state.selection));
  byId("other-table").replaceChildren(
    tableRow("th", [capital(level.one), say("here_head"), say("there_head"), say("difference_head")]),
    ...shown.map((unit) => {
      const row = tableRow("td", ["", whole.format(values[unit]), whole.format(others[unit]), signed(by[unit])]);
      row.cells[0].append(areaButton(level, unit, areaName(level, unit), (event) => choose(unit, event)));
      intervals?.of(unit).forEach((ends, at) =>
        row.children[1 + at].append(text("span", between(ends, at === 2 ? signed : whole.format), "code")),
      );
      return row;
    }),
  );
}

function otherWords(data, other, { sums: [here, there], beyond, intervals, known }, { level, side, selection, column }) {
  const [ours, theirs, less_] = intervals?.all ?? [];
  const difference = signed(here - there);
  return sentences(
    say("both_counted", {
      here: whole.format(here) + bracketed(ours),
      there: whole.format(there) + bracketed(theirs),
      difference: less_ ? say("difference_interval", { difference, interval: between(less_, signed) }) : difference,
    }),
    beyond > 0 && say("areas_gone", { n: beyond, between: level.between }),
    say("differ_most", { many: level.many }),
    intervals ? say("difference_intervals") : whyNoDifferences(data, other, side, selection, column, known),
  );
}

/** Why differences from another map have no interval. */
function whyNoDifferences(data, other, side, selection, column, known) {
  if (data.meta.draws && !data.draws) return say("differences_closed");
  if (!data.draws || !other.draws) return say("differences_without", { which: data.draws ? "other" : other.draws ? "this" : "both" });
  if (side === "work" && !selection) return [data, other].some(({ draws }) => draws.estimated.includes(column)) ? "" : say("public_totals_of_each");
  const [lacking, page] = known ? [other, say("draws_there")] : [data, say("draws_here")];
  return noIntervals(lacking, column, Boolean(selection), say("of_differences"), page);
}
