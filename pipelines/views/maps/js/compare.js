// Two choices side by side, and this release beside another: the data of another map's file.

import { EVERYBODY, countAlike, readData } from "./data.js";
import { byId, tableRow, text } from "./dom.js";
import { added, balanceDraws, commuteDraws, less, movedDifference, partnerDraws, shareDraws } from "./draws.js";
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

/** A page as a document, which runs nothing of it. */
export const parsed = (words) => new DOMParser().parseFromString(words, "text/html");

/** The data of another map, from its page; `whole`: with all of its levels. */
export async function readOtherMap(page, whole = true) {
  if (page.querySelector("[data-address]")) {
    throw new FileError(say("map_in_parts"));
  }
  let other;
  try {
    other = await readData(page, whole);
  } catch {
    throw new FileError(say("no_other_map"));
  }
  if (!other.meta.release.common_ground) throw new FileError(say("no_other_map"));
  return { ...other, name: other.meta.release.name };
}

const lists = new Map(); // by address

/** What is published on the site of this page, newest first; nothing where it does not say. */
export async function published(list) {
  const ask = async () => {
    try {
      return (await (await fetch(list)).json()).releases ?? [];
    } catch {
      return [];
    }
  };
  if (!lists.has(list)) lists.set(list, ask());
  return lists.get(list);
}

export const mapOf = ({ name, version }) => `/releases/${name}/${version}/map`;

/** Other versions on the site of this page that can be used: {title, address: of its map}. */
export async function publishedMaps(list) {
  const usable = (await published(list)).filter(({ status }) => status === "complete");
  return usable
    .map((entry) => ({ title: say("version_of", { title: entry.title ?? entry.name, version: entry.version }), address: mapOf(entry) }))
    .filter(({ address }) => address !== location.pathname);
}

/** The page of another map of the site; of one in parts, its one file. */
export async function fetchMap(address) {
  let words;
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new FileError(say("answered", { status: String(answer.status) }));
    words = await answer.text();
  } catch (error) {
    throw error instanceof FileError ? error : new FileError(say("no_answer"));
  }
  const page = parsed(words);
  const whole = page.getElementById("one-file");
  return whole ? fetchMap(new URL(whole.getAttribute("href"), new URL(address, location.href)).href) : page;
}

/** The same part of a selection in other data; null where these lack it. */
export function samePart(data, other, part) {
  if (part.kind !== "file") return partOfKey(other, partKey(part));
  const number = new Map(other.finest.codes.map((code, unit) => [code, unit]));
  const units = part.units.map((unit) => number.get(data.finest.codes[unit]) ?? -1);
  return units.includes(-1) ? null : { ...part, units };
}

/** The same choice in another map; null where it lacks an area of it. */
function sameChoice(data, other, selection) {
  const parts = selection.parts.map((part) => samePart(data, other, part));
  return parts.includes(null) ? null : selectionOf(other, parts);
}

/**
 * Side, selection, level and column of a state in other data, or {problem: words}.
 * @returns {any}
 */
export function sameState(data, other, { side, selection, level, column }) {
  const theirs = other.levels.find(({ id }) => id === level.id);
  if (!theirs) return { problem: say("no_level", { level: level.one }) };
  if (!countAlike(data, other, column)) return { problem: say("no_count") };
  const same = selection && sameChoice(data, other, selection);
  if (selection && !same) return { problem: say("no_areas") };
  return { side, selection: same, level: theirs, column };
}

/**
 * This release less another, area by area of a level: {values, others, beyond: jobs of the other in areas that are not here, sums:
 * of both, intervals: `differenceIntervals`}, or {problem: words}. `values` are the numbers here.
 */
export function differencesOf(data, other, state, values) {
  const same = sameState(data, other, state);
  if (same.problem) return same;
  const found = mapped(other, same.side, same.selection, same.level, same.column);
  const number = new Map(state.level.codes.map((code, unit) => [code, unit]));
  const here = (unit) => number.get(same.level.codes[unit]);
  const others = new Float64Array(state.level.codes.length);
  let beyond = 0;
  found.forEach((jobs, unit) => {
    if (here(unit) === undefined) beyond += jobs;
    else others[here(unit)] += jobs;
  });
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  return {
    values: values.map((jobs, unit) => jobs - others[unit]),
    others,
    beyond,
    sums: [sum(values), sum(found)],
    intervals: differenceIntervals(data, other, state, same, here),
  };
}

/** Differences inside a level from which classes are made: those beyond noise; of none, all. */
export function classedDifferences({ values, intervals }, level) {
  const inside = Array.from(values.keys()).filter((unit) => !level.externalZones.has(unit));
  const beyond = inside.filter((unit) => !intervals.within?.([unit], values[unit]));
  return (beyond.length ? beyond : inside).map((unit) => values[unit]);
}

/**
 * What two releases tell, independently of each other: {draws, unbiased} of each. Of the later one, where it has a history, it is what it
 * tells without that, which it may share with the earlier one. Null where there is nothing.
 */
function toldApart(data, other) {
  const later = other.meta.release.year >= data.meta.release.year ? other : data;
  return [data, other].map((each) => {
    const apart = each === later && each.meta.draws?.history;
    return apart ? { draws: each.apart, unbiased: each.unbiasedApart } : { draws: each.draws, unbiased: each.unbiased };
  });
}

/**
 * Intervals of numbers here, there, and of their differences: {of: unit -> three, all: three, within: (units, difference of
 * these together) -> whether its interval is not on its side of 0, plain: whether they are of draws alone}, or {why: there are
 * none}. `same` is the state in the other data, and `here` the unit of this level that a unit there is.
 */
function differenceIntervals(data, other, state, same, here) {
  const [{ draws, unbiased }, { draws: theirs, unbiased: theirUnbiased }] = toldApart(data, other);
  const { side, column } = state;
  const of = (each, from, { selection: chosen, level: at }) => partnerDraws({ ...each, draws: from }, side, chosen, at, column).values;
  const [own, lists] = [of(data, draws, state), of(other, theirs, same)];
  if (!own || !lists) return { why: whyNoDifferences(data, other, [draws, theirs], state, Boolean(own)) };
  const byUnit = (all, none) => {
    const at = new Map(all?.map((list, unit) => [here(unit), list]));
    return (unit) => at.get(unit) ?? none;
  };
  const there = byUnit(lists, new Float64Array(theirs.n)); // zeros: it does not have the area
  const [noisy, theyKnow] = [of(data, unbiased, state), of(other, theirUnbiased, same)];
  const noisyThere = byUnit(theyKnow, null);
  const unknown = [NaN, NaN];
  // Noise of both releases is independent: variances add up.
  const unbiasedOf = (unit) => {
    const [one, two] = [noisy?.[unit], noisyThere(unit)];
    return one && two ? [one[0] - two[0], one[1] + two[1]] : unknown;
  };
  const fewer = draws.n < theirs.n ? draws : theirs;
  const sum = (units, list) => units.map(list).reduce(added);
  const three = (a, b, told) => [draws.ends(a), theirs.ends(b), fewer.ends(movedDifference(a, b, told))];
  const allHere = lists.every((_, unit) => here(unit) !== undefined);
  return {
    of: (unit) => three(own[unit], there(unit), unbiasedOf(unit)),
    plain: !noisy || !theyKnow,
    all: three(own.reduce(added), lists.reduce(added), allHere ? sum([...own.keys()], unbiasedOf) : unknown),
    within: (units, value) => {
      const [low, high] = three(sum(units, (unit) => own[unit]), sum(units, there), sum(units, unbiasedOf))[2];
      return value > 0 ? low <= 0 : value < 0 ? high >= 0 : low !== 0 || high !== 0;
    },
  };
}

/** Why differences from another map have no interval; "" where that goes without saying. */
function whyNoDifferences(data, other, [draws, theirs], { side, selection, column }, known) {
  if (data.meta.draws && !data.draws) return say("differences_closed");
  if (!data.draws || !other.draws) return say("differences_without", { which: data.draws ? "other" : other.draws ? "this" : "both" });
  if (isExact(data, other, { side, selection, column })) return say("public_totals_of_each");
  if (!draws || !theirs) return say("differences_history", { name: (draws ? other : data).meta.release.name });
  if (side === "work" && !selection) return "";
  const [lacking, page] = known ? [theirs, say("draws_there")] : [draws, say("draws_here")];
  return noIntervals({ draws: lacking }, column, Boolean(selection), say("of_differences"), page);
}

/** Whether the numbers of both releases are exact, as far as they say. */
const isExact = (data, other, { side, selection, column }) =>
  side === "work" && !selection && [data, other].every(({ meta }) => meta.draws && !meta.draws.estimated.includes(column));

/** A difference; none where it is rounded to 0. */
function withSign(value, format) {
  const words = format(Math.abs(value));
  return (/[1-9]/.test(words) ? (value > 0 ? "+" : "−") : "") + words;
}
export const signed = (value) => withSign(value, whole.format);

/** This release beside another, or a year since an earlier one: totals, and where they differ most. */
export function showOther(data, other, differences, values, state, choose) {
  byId("other").hidden = !other;
  byId("change-words").hidden = !other || !state.change;
  if (!other) return;
  const { level, change } = state;
  byId("other-title").textContent = change ? say("change_title", change) : say("beside", { name: other.name });
  const { problem, others, values: by, intervals } = differences;
  byId("other-table").hidden = Boolean(problem);
  byId("change-words").textContent = problem ?? (change ? changeWords(data, other, differences, state) : "");
  byId("other-words").textContent = problem ?? (change ? changesWords(data, differences, state) : otherWords(differences, state));
  if (problem) return;
  const units = Array.from(by.keys()).filter((unit) => by[unit] !== 0 && !level.externalZones.has(unit));
  const shown = units.sort((a, b) => Math.abs(by[b]) - Math.abs(by[a])).slice(0, TOP);
  const heads = change ? [change.year, change.since, say("change_head")] : [say("here_head"), say("there_head"), say("difference_head")];
  byId("other-table").classList.toggle("of-noise", Boolean(level.noise && state.selection));
  byId("other-table").replaceChildren(
    tableRow("th", [capital(level.one), ...heads]),
    ...shown.map((unit) => {
      const row = tableRow("td", ["", whole.format(values[unit]), whole.format(others[unit]), signed(by[unit])]);
      row.cells[0].append(areaButton(level, unit, areaName(level, unit), (event) => choose(unit, event)));
      row.lastElementChild.classList.toggle("muted", Boolean(intervals.within?.([unit], by[unit])));
      intervals.of?.(unit).forEach((ends, at) =>
        row.children[1 + at].append(text("span", between(ends, at === 2 ? signed : whole.format), "code")),
      );
      return row;
    }),
  );
}

function otherWords({ sums: [here, there], beyond, intervals }, { level }) {
  const [ours, theirs, less_] = intervals.all ?? [];
  const difference = signed(here - there);
  return sentences(
    say("both_counted", {
      here: whole.format(here) + bracketed(ours),
      there: whole.format(there) + bracketed(theirs),
      difference: less_ ? say("difference_interval", { difference, interval: between(less_, signed) }) : difference,
    }),
    beyond > 0 && say("areas_gone", { n: beyond, between: level.between }),
    say("differ_most", { many: level.many }),
    intervals.all ? say("difference_intervals") : intervals.why,
    intervals.all && say("grey_differences"),
    intervals.plain && say("differences_of_draws"),
  );
}

/** What changed in all that is chosen. */
function changeWords(data, other, { sums: [here, there], intervals }, state) {
  const { change } = state;
  const interval = intervals.all && between(intervals.all[2], signed);
  const difference = signed(here - there);
  return sentences(
    say("change_counted", {
      ...change,
      here: whole.format(here),
      there: whole.format(there),
      change: interval ? say("change_interval", { difference, interval }) : difference,
    }),
    !interval && intervals.why,
    !interval && !isExact(data, other, state) && say("change_unsure"),
  );
}

/** What changed where. */
function changesWords(data, { beyond, intervals }, { level, change }) {
  return sentences(
    beyond > 0 && say("areas_gone", { n: beyond, between: level.between }),
    say("change_most", { many: level.many }),
    intervals.all && say("change_intervals"),
    intervals.plain && say("differences_of_draws"),
    intervals.all && data.meta.draws.history && say("change_redrawn", change),
  );
}
