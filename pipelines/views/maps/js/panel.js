// The panel beside the map: what is chosen, in numbers. Its tables say what the map shows to whoever cannot see it.

import { bar, drawDistances, drawRose, fillRoseTable } from "./charts.js";
import { EVERYBODY, countAlike } from "./data.js";
import { byId, tableRow, text } from "./dom.js";
import { commuteTable } from "./draws.js";
import { balanceOf } from "./flows.js";
import { say, sentences, whole } from "./phrases.js";
import { areaName, capital, endName, readable } from "./places.js";
import {
  between,
  bracketed,
  classWords,
  colour,
  densityWords,
  differenceColour,
  differenceWords,
  intervalWords,
  lineWidth,
  numberWith,
  oneDecimal,
  rampColours,
  share,
  twoDecimals,
} from "./scale.js";
import { countsWords, isNoise, selectionCode, selectionName } from "./selection.js";

export const TOP = 10;
/** Fill the lists from which a reader chooses. */
export function fillChoices(data) {
  const levels = [...data.levels, ...data.meta.later].map((level) => new Option(level.noise ? say("noise_mark", { level: capital(level.one) }) : capital(level.one), level.id));
  byId("level").append(...levels);
  for (const { attribute, columns } of data.meta.counts) {
    const options = columns.map(({ id, words }) => new Option(capital(words), id));
    if (!attribute) {
      byId("count").append(...options);
      continue;
    }
    const group = document.createElement("optgroup");
    group.label = capital(attribute);
    group.append(...options);
    byId("count").append(group);
  }
  // A choice of one is none.
  byId("count").closest("label").hidden = byId("count").options.length === 1;
  offerChoices(data, data);
}

/** Offer the levels and counts that the data of a year have, of those that the page has; and say which it lacks for want of room. */
export function offerChoices(data, own) {
  const later = data === own ? own.meta.later : [];
  const levels = [...data.levels, ...later].map(({ id }) => id);
  for (const option of byId("level").options) option.disabled = !levels.includes(option.value);
  for (const option of byId("count").options) option.disabled = !countAlike(own, data, option.value);
  byId("left-out").textContent = data.meta.left_out.length
    ? say("left_out", { levels: data.meta.left_out.join(", "), many: (later.at(-1) ?? data.finest).many })
    : "";
}

/** What a reader has to know of a level whose flows are noise. */
function noiseWords({ between, noise }) {
  return say("noise_of", { between, loss: Math.round(100 * noise.loss), public_model: Math.round(100 * noise.public_model) });
}

export function fillWarning(data, level) {
  const others = data.levels.filter(({ noise }) => !noise).map(({ many }) => many);
  byId("warning-title").textContent = say("noise_title", level);
  byId("warning-words").textContent = sentences(
    noiseWords(level),
    others.length > 0 && say("noise_others", { levels: others.join(", ") }),
  );
}

/** While a level is noise, say so beside its numbers and in the legend. */
export function showNoise(level) {
  byId("noise").hidden = byId("legend-noise").hidden = !level.noise;
  byId("noise").textContent = level.noise ? `${say("noise_title", level)}. ${noiseWords(level)}` : "";
  byId("legend").classList.toggle("of-noise", Boolean(level.noise));
}

/** Who is counted, in words; nothing where it is everybody. */
export const countedWords = (data, column) => (column === EVERYBODY ? "" : say("only", { meaning: data.meanings[column] }));

/** Say beside every number who is counted: on paper there is no list to look at. */
export function showCounted(words) {
  document.querySelectorAll(".counted").forEach((element) => {
    element.textContent = capital(words);
    /** @type {HTMLElement} */ (element).hidden = !words;
  });
}

/** Whether the numbers by area are of residents, and not of jobs where they are. */
const countsHomes = ({ side, selection }) => (selection ? side === "work" : side === "home");

/** What the numbers by area are of: in one word. */
const countedThing = (state) => (state.side === "both" ? say("commuters") : countsHomes(state) ? say("residents") : say("jobs_head"));

/** What each side of the switch shows, with a choice and without. */
export function showSides({ selection }) {
  const words = selection
    ? { work: say("where_workers_live"), home: say("where_residents_work"), both: say("both") }
    : { work: say("where_work"), home: say("where_live"), both: say("both") };
  Object.entries(words).forEach(([side, label]) => (byId(`side-${side}`).textContent = label));
  byId("side-both").closest("label").hidden = !selection; // without a choice nobody comes or leaves
}

const MOST_NAMED = 4;
/** The external zones in which people work, by their names where these are few. */
export const zonesOfWork = ({ zonesOfWork: names }) =>
  names.length > MOST_NAMED ? say("zones") : say("zones_by_name", { names: names.join(", ") });

/** Whether people live in external zones, work in them, or either: which form of a phrase says so; "" of neither. */
const verbOf = (live, work) => [live && "live", work && "work"].filter(Boolean).join(" or ");

/** Of a selection: who comes, who stays, who leaves. */
export function showBalance(data, { selection, column }, balance) {
  // Nobody comes to a kind of work without a place, and nobody leaves it.
  byId("balance").hidden = !selection || (selection.external && !balance.live);
  if (byId("balance").hidden) return;
  const of = (name) => data.draws?.ends(balance.draws[name]);
  byId("balance-table").classList.toggle("of-noise", isNoise(selection));
  const { come, stay, leave, there, beyond, work: workers, live: residents } = balance;
  const row = (words, jobs, all, ends = null) => {
    const made = tableRow("td", [words, "", all ? share(jobs, all) : ""]);
    made.children[1].append(...numberWith(jobs, ends));
    return made;
  };
  const elsewhere = (jobs, all, ends) => (jobs ? [row(say("work_in_zones", { zones: zonesOfWork(data) }), jobs, all, ends)] : []);
  byId("balance-table").replaceChildren(
    tableRow("th", [say("who_head"), say("workers_head"), say("share_head")]),
    row(say("work_here"), workers, workers, data.draws?.estimated.includes(column) ? of("work") : null),
    row(say("come_here"), come, workers, of("come")),
    ...elsewhere(there, workers, of("there")),
    row(say("live_here_too"), stay, workers, of("stay")),
    row(say("live_here"), residents, residents, of("live")),
    row(say("work_here_too"), stay, residents, of("stay")),
    row(say("leave_here"), leave, residents, of("leave")),
    ...elsewhere(beyond, residents, of("beyond")),
    row(there || beyond ? say("work_or_live") : say("come_leave_stay"), balance.all, 0, of("all")),
  );
  const lacking = of("live") ? say("of_balance") : say("of_balance_and_residents");
  byId("balance-words").textContent = of("come") ? "" : noIntervals(data, column, Boolean(of("live")), lacking);
}

/** Who the workers are, attribute by attribute. */
export function showProfile(data, { side, selection, column }, sums, draws) {
  const jobs = sums[EVERYBODY];
  const groups = data.meta.counts.filter(({ attribute }) => attribute);
  byId("profile").hidden = !groups.length;
  const lacking = selection && side !== "work" && data.draws ? groups.filter(({ columns }) => !draws[columns[0].id]) : [];
  const reasons = new Map();
  for (const { attribute, columns } of lacking) {
    const why = whyNone(data, columns[0].id, side === "both");
    reasons.set(why, [...(reasons.get(why) ?? []), attribute]);
  }
  byId("profile-of").textContent = sentences(
    say("shares_of", { n: jobs, which: selection ? side : "all" }),
    column !== EVERYBODY && say("shares_of_all"),
    Object.keys(draws).length > 0 && say("shares_intervals"),
    ...Array.from(reasons, ([why, attributes]) =>
      say("no_interval_of", { of: say("of_shares", { attributes: attributes.join(", ") }), page: say("draws_here"), why }),
    ),
  );
  const bars = groups.flatMap(({ attribute, columns }) => [
    text("h4", capital(attribute)),
    ...columns.map(({ id, words }) => bar(capital(words), sums[id], jobs, jobs, "profile-bar", data.draws?.ends(draws[id]))),
  ]);
  byId("profile-bars").replaceChildren(...bars);
}

export function showSummary(state, found, unit, data, draws) {
  const { side, selection } = state;
  byId("chosen").textContent = selection ? selectionName(selection, data.finest) : say("whole_region");
  byId("chosen-kind").textContent = selection ? say("chosen_kind", { which: side }) : "";
  byId("chosen-code").textContent = selection ? selectionCode(selection) : "";
  byId("counts-of").textContent = selection ? countsWords(selection, data) : "";
  byId("clear").hidden = !selection;
  byId("hint").hidden = Boolean(selection);
  byId("hint").textContent = say("hint", { which: side === "work" ? "work" : "home" });
  const which = !selection ? "all" : side === "work" && selection.external ? "zone" : side;
  byId("jobs-words").textContent = say("synthetic_workers", { which });
  byId("jobs").textContent = whole.format(found.jobs);
  const length = (km) => (Number.isNaN(km) ? "–" : `${oneDecimal.format(km / unit.km)} ${unit.id}`);
  byId("mean").textContent = length(found.mean);
  byId("median").textContent = length(found.median);
  const beyond = found.jobs - found.placed;
  const zones = [...found.externalZones.values()];
  const ends = verbOf(zones.some(({ live }) => live), zones.some(({ work }) => work));
  // Of coarser areas than the release has, centroids are means of those of blocks.
  const coarse = data.meta.later.length || data.meta.left_out.length;
  byId("measured-between").textContent = coarse ? say("measured_mean", data.finest) : data.finest.between;
  byId("commute-of").textContent = sentences(
    say("commutes", {
      between: data.finest.between,
      later: data.meta.later.length ? say("commutes_later", data.meta.later.at(-1)) : "",
      zones: beyond > 0 ? say("commutes_zones", { n: beyond, which: ends }) : "",
    }),
    found.draws ? commuteWords(data, found.draws, unit) : noCommuteIntervals(data, state),
  );
  byId("jobs-interval").textContent = data.draws ? boundWords(data, state, draws) : "";
  const everybody = selection?.external && balanceOf(data, selection, EVERYBODY);
  const nobody = !everybody || everybody[side === "home" ? "live" : side === "work" ? "work" : "all"] ? "" : verbOf(side !== "work", side !== "home");
  byId("nobody").hidden = !nobody;
  byId("nobody").textContent = nobody && say("nobody", { which: nobody });
}

/** From where to where the number of a choice may be in truth; or why that is not said. */
function boundWords(data, { side, selection, column }, { work, live, all }) {
  const exact = !data.draws.estimated.includes(column);
  if (!selection || (side === "work" && exact)) return exact ? say("public_totals") : "";
  const ends = data.draws.ends({ work, home: live, both: all }[side]);
  if (!ends) return noIntervals(data, column, side !== "home");
  return say("true_number", { interval: intervalWords(ends) });
}

/** Why numbers have no interval, though the page has draws, as a sentence. Commuters are in tables of flows. */
export function noIntervals({ draws }, column, flows, of = "", page = say("draws_here")) {
  if (!draws) return "";
  const why = whyNone({ draws }, column, flows);
  return of ? say("no_interval_of", { of, page, why }) : say("no_interval", { page, why });
}

/** Why draws do not tell a number, in the words that follow "the draws". */
function whyNone({ draws }, column, flows) {
  const table = draws.tables.findLast((each) => each.column === column && (!flows || each.works));
  return table ? say("draws_whole", table.homes) : say("draws_alike");
}

/** Why distances and directions have no interval. */
function noCommuteIntervals(data, { side, selection, column }) {
  const known = commuteTable(data, side, selection, column);
  const of = say("of_commutes");
  return known ? say("no_interval_nobody", { of }) : noIntervals(data, column, true, of);
}

function commuteWords({ draws }, { mean, median, level }, unit) {
  const words = (values) => `${between(draws.ends(values), (km) => twoDecimals.format(km / unit.km))} ${unit.id}`;
  return say("commute_intervals", { mean: words(mean), median: words(median), between: level.between });
}

/** A button that chooses an area. */
export function areaButton(level, unit, words, choose) {
  const button = text("button", words);
  button.type = "button";
  button.dataset.code = level.codes[unit];
  button.title = say("choose_area", { area: areaName(level, unit) });
  button.addEventListener("click", choose);
  return button;
}

/** The strongest partners, or without a selection the largest areas; each can be chosen. */
export function showTop(data, state, { values, between, intervals }, jobs, choose) {
  const { selection, level, side, column } = state;
  const homes = countsHomes(state);
  const titles = { work: say("where_workers_live"), home: say("where_residents_work"), both: say("between_elsewhere") };
  byId("top-title").textContent = selection ? titles[side] : homes ? say("most_live") : say("most_work");
  const units = Array.from(values.keys()).filter((unit) => values[unit] > 0 && !level.externalZones.has(unit));
  const shown = units.sort((a, b) => values[b] - values[a]).slice(0, TOP);
  const inZones = (numbers) => [...level.externalZones.keys()].reduce((total, unit) => total + numbers[unit], 0);
  const beyond = inZones(values);
  const ends = between ? verbOf(inZones(between.come), inZones(between.leave)) : verbOf(homes, !homes);
  const bounded = Boolean(intervals.values ?? intervals.come);
  const more = (words) => (intervals.values ? [words()] : []);
  const totals = side === "work" && !selection; // of which there are no draws here, as they may be public totals
  byId("top-count").textContent = sentences(
    units.length > shown.length
      ? say("largest_of", { shown: shown.length, n: units.length, between: level.between })
      : say("all_with_any", { n: units.length, areas: units.length === 1 ? level.one : level.many }),
    beyond > 0 && say("in_zones", { n: beyond, share: share(beyond, jobs), which: ends }),
    bounded ? say("intervals_of_top") : !totals && noIntervals(data, column, Boolean(selection)),
  );
  // Of the level's table of flows; totals of areas are another one.
  byId("top").classList.toggle("of-noise", Boolean(level.noise && selection));
  byId("top").replaceChildren(
    tableRow("th", [
      capital(level.one),
      ...(between ? [say("come_from"), say("go_to")] : [homes ? say("residents") : say("jobs_head")]),
      ...more(() => say("interval_head")),
      say("share_head"),
    ]),
    ...shown.map((unit) => {
      const counts = between ? [between.come[unit], between.leave[unit]] : [values[unit]];
      const ends = between ? [intervals.come?.(unit), intervals.leave?.(unit)] : [];
      const cells = ["", ...counts.map(() => ""), ...more(() => intervalWords(intervals.values(unit))), share(values[unit], jobs)];
      const row = tableRow("td", cells);
      counts.forEach((count, at) => row.children[1 + at].append(...numberWith(count, ends[at])));
      const code = readable(level, level.codes[unit]);
      row.cells[0].append(areaButton(level, unit, level.names[unit] ?? code, (event) => choose(unit, event)));
      if (level.names[unit]) row.cells[0].append(text("span", code, "code"));
      row.style.setProperty("--part", `${(100 * values[unit]) / values[shown[0]]}%`);
      return row;
    }),
  );
}

export function showCommutes(found, unit, data) {
  const { draws } = found;
  const of = (values) => data.draws?.ends(values);
  drawRose(byId("rose"), found);
  drawDistances(byId("distances"), found, unit.id, draws?.classes.map(of));
  fillRoseTable(byId("rose-table"), found, unit.id, draws?.rose.map((row) => row.map(of)));
  const { one, between } = data.finest;
  const others = found.noDirection - found.inOne;
  const number = (jobs, values) => whole.format(jobs) + bracketed(of(values));
  const where = [
    ...(found.inOne ? [say("in_one", { n: number(found.inOne, draws?.inOne), one })] : []),
    ...(others ? [say("in_two", { n: number(others, draws?.sameCentroid), between })] : []),
  ];
  byId("no-direction").textContent = where.length ? say("no_direction", { where: where.join(", ") }) : "";
  byId("placed").textContent = sentences(
    say("shares_placed", { n: number(found.placed, draws?.jobs) }),
    draws && say("placed_intervals", draws.level),
  );
}

/** Who lives, and who works, in external zones; each can be chosen. */
export function showExternalZones(found, data, intervalOf, choose) {
  const level = data.levels[0];
  const beyond = [...found.externalZones].sort((a, b) => b[1].jobs - a[1].jobs);
  const ends = ["live", "work"].filter((end) => beyond.some(([, zone]) => zone[end]));
  byId("external-zones").hidden = beyond.length === 0;
  byId("external-zones-title").textContent = ends.length ? say("zones_title", { which: ends.join(" or ") }) : "";
  byId("external-zones-work").hidden = !ends.includes("work");
  const head = () => tableRow("th", [say("zone_head"), ...ends.map((end) => (end === "live" ? say("residents") : say("jobs_head"))), say("share_head")]);
  const row = (zone, units, name) => {
    const made = tableRow("td", ["", ...ends.map(() => ""), share(zone.jobs, found.jobs)]);
    ends.forEach((end, at) => made.children[1 + at].append(...numberWith(zone[end], intervalOf[end](units))));
    made.cells[0].append(name);
    return made;
  };
  const rowOf = ([finest, zone]) => {
    const unit = level.unitOf[finest];
    return row(zone, [unit], areaButton(level, unit, areaName(level, unit), (event) => choose(unit, event)));
  };
  const [main, others] = [true, false].map((wanted) => beyond.filter(([finest]) => data.externalZones.get(finest).main === wanted));
  const together = others.length ? [row(found.elsewhere, level.elsewhere, endName(level, level.elsewhere[0]))] : [];
  byId("external-zones-table").replaceChildren(head(), ...main.map(rowOf), ...together);
  byId("external-zones-others").hidden = !others.length;
  byId("external-zones-others-table").replaceChildren(head(), ...others.map(rowOf));
}

/** The areas of a level that overlap the selection: itself, or larger ones. */
function ownWords(level, selection) {
  const { n, whole: all } = selection.cover(level);
  const parts = selection.parts.length;
  if (all) return parts === 1 ? say("own_one") : say("own_several");
  return n === 1 ? say("own_in", { n: parts, one: level.one }) : say("own_over", { n: parts, between: level.between });
}

export function showFlowWords({ side, selection, level }, { flows, inside, beyond }, shown, threshold, { chosen, together }, zones) {
  const jobs = flows.jobs.reduce((a, b) => a + b, 0);
  const seen = shown.reduce((total, { jobs }) => total + jobs, 0);
  byId("threshold-words").textContent = say("or_more", { n: threshold });
  const numbers = { n: chosen.length, all: flows.length, share: share(seen, jobs), jobs };
  const near = together?.near ? say("flows_near", { n: together.near }) : "";
  const left = together ? together.flows.length - shown.length : 0;
  const own = selection ? ownWords(level, selection) : say("own_work", { level: level.one });
  const all = jobs + inside + beyond;
  const rest = { n: inside, share: share(inside, all), own };
  byId("flow-count").textContent = sentences(
    together ? say("flows_together", { ...numbers, lines: shown.length, near }) : flows.length ? say("flows_drawn", numbers) : say("no_flows"),
    left > 0 && say("lines_left", { n: left }),
    inside > 0 &&
      (side === "both" && selection ? say("flows_stay", rest)
      : side === "work" || !selection ? say("flows_of_residents", rest)
      : say("flows_at_workplaces", rest)),
    beyond > 0 && say("flows_beyond", { n: beyond, share: share(beyond, all), zones }),
  );
}

function legendEntry(label, style, className = "") {
  const item = text("li", label);
  const swatch = text("i", "", className);
  Object.assign(swatch.style, style);
  item.prepend(swatch);
  return item;
}

/** Which way the lines go, and how wide the largest and the smallest are. */
export function showFlowLegend({ side, selection }, drawn, largest) {
  const jobs = [...new Set([drawn[0]?.jobs, drawn.at(-1)?.jobs])].filter(Boolean);
  const lines = jobs.map((n) => {
    const height = `${lineWidth(n / largest)}px`;
    return legendEntry(say("n_jobs", { n }), { height }, "line");
  });
  const arrow = legendEntry(say("home_to_work"), {}, "arrow");
  const star = text("li", side === "work" ? say("to_chosen") : say("from_chosen"));
  byId("legend-flows").replaceChildren(selection && side !== "both" ? star : arrow, ...lines);
  byId("legend-flows").hidden = !jobs.length;
}

/** The classes of the map's colours, of `several` years the same of each. */
export function showLegend(state, { coloured, dense, breaks, differences, within }, drawnAround, several) {
  const { selection, level, change, year } = state;
  const title = { counted: countedThing(state), level: level.one };
  const kind = dense ? say("by_level_dense", title) : say("by_level", title);
  byId("legend-title").textContent =
    differences && change ? say("by_level_change", { ...title, ...change })
    : differences ? say("by_level_difference", title)
    : several ? `${kind}, ${year}`
    : kind;
  const largest = several ? Infinity : coloured.reduce((most, value) => Math.max(most, value), 0);
  const words = (dense ? densityWords : classWords)(breaks, largest);
  const entry = (fill, label) => legendEntry(label, { background: fill });
  const colours = rampColours(words.length);
  const entries = differences
    ? differenceWords(breaks, coloured, Boolean(change)).map(([value, label]) => entry(differenceColour(value, breaks), label))
    : words.map((label, i) => entry(colours[i], label));
  if (within) entries.unshift(entry(colour("within"), say("within_noise")));
  byId("legend-classes").replaceChildren(...entries.reverse(), entry(colour("land"), differences ? say("no_difference") : say("none")));
  byId("legend-circles").hidden = Boolean(level.shapes);
  byId("legend-chosen").hidden = !selection;
  byId("legend-border").hidden = !selection?.parts.some(({ kind }) => kind === "layer");
  byId("legend-zones-dense").hidden = !dense;
  byId("legend-cells").hidden = !(level.shapes && drawnAround);
}
