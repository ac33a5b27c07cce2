// The panel beside the map: what is chosen, in numbers. Its tables say what the map shows to whoever cannot see it.

import { bar, drawDistances, drawRose, fillRoseTable } from "./charts.js";
import { EVERYBODY } from "./data.js";
import { byId, tableRow, text } from "./dom.js";
import { commuteTable } from "./draws.js";
import { balanceOf } from "./flows.js";
import { areaName, capital, readable } from "./places.js";
import {
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
  whole,
} from "./scale.js";
import { countsWords, isNoise, selectionCode, selectionName } from "./selection.js";

export const TOP = 10;
/** Fill the lists from which a reader chooses. */
export function fillChoices(data) {
  const levels = [...data.levels, ...data.meta.later].map((level) => new Option(capital(level.one) + (level.noise ? " (noise)" : ""), level.id));
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
  if (data.meta.left_out.length) {
    byId("left-out").textContent =
      `Left out, because this page would grow too large: ${data.meta.left_out.join(", ")}. ` +
      `Numbers are of whole ${(data.meta.later.at(-1) ?? data.finest).many}.`;
  }
}

/** What a reader has to know of a level whose flows are noise. */
function noiseWords({ many, noise }) {
  const percent = (part) => `${Math.round(100 * part)} in 100`;
  return (
    `Of the jobs in the table of flows between ${many}, about ${percent(noise.loss)} are expected to be counted where ` +
    `they are not in truth; by public data alone it would be about ${percent(noise.public_model)}.`
  );
}

export function fillWarning(data, level) {
  const others = data.levels.filter(({ noise }) => !noise).map(({ many }) => many);
  byId("warning-title").textContent = `Flows between ${level.many} are noise`;
  byId("warning-words").textContent =
    noiseWords(level) + (others.length ? ` Levels of this map that are not noise: ${others.join(", ")}.` : "");
}

/** While a level is noise, say so beside its numbers and in the legend. */
export function showNoise(level) {
  byId("noise").hidden = byId("legend-noise").hidden = !level.noise;
  byId("noise").textContent = level.noise ? `Flows between ${level.many} are noise. ${noiseWords(level)}` : "";
  byId("legend").classList.toggle("of-noise", Boolean(level.noise));
}

/** Who is counted, in words; nothing where it is everybody. */
export const countedWords = (data, column) => (column === EVERYBODY ? "" : `only: ${data.meanings[column]}`);

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
const countedThing = (state) => (state.side === "both" ? "Commuters" : countsHomes(state) ? "Residents" : "Jobs");

/** What each side of the switch shows, with a choice and without. */
export function showSides({ selection }) {
  const words = selection
    ? { work: "Where its workers live", home: "Where its residents work", both: "Both" }
    : { work: "Where people work", home: "Where people live", both: "Both" };
  Object.entries(words).forEach(([side, label]) => (byId(`side-${side}`).textContent = label));
  byId("side-both").closest("label").hidden = !selection; // without a choice nobody comes or leaves
}

const MOST_NAMED = 4;
/** The external zones in which people work, by their names where these are few. */
export const zonesOfWork = ({ zonesOfWork: names }) => `external zones${names.length > MOST_NAMED ? "" : ` (${names.join(", ")})`}`;

/** Whether people live in external zones, work in them, or either, in words. */
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
  const elsewhere = (jobs, all, ends) => (jobs ? [row(`· work in ${zonesOfWork(data)}`, jobs, all, ends)] : []);
  byId("balance-table").replaceChildren(
    tableRow("th", ["Who", "Workers", "Share"]),
    row("Work here", workers, workers),
    row("· come from elsewhere", come, workers, of("come")),
    ...elsewhere(there, workers, of("there")),
    row("· live here too", stay, workers, of("stay")),
    row("Live here", residents, residents, of("live")),
    row("· work here too", stay, residents, of("stay")),
    row("· leave for work elsewhere", leave, residents, of("leave")),
    ...elsewhere(beyond, residents, of("beyond")),
    row(there || beyond ? "Work or live here" : "Come, leave or stay", balance.all, 0, of("all")),
  );
  const lacking = of("live") ? "who comes, stays and leaves" : "who comes, stays, leaves and lives here";
  byId("balance-words").textContent = of("come") ? "" : noIntervals(data, column, Boolean(of("live")), lacking);
}

/** Who the workers are, attribute by attribute. */
export function showProfile(data, { side, selection, column }, sums, draws) {
  const jobs = sums[EVERYBODY];
  const groups = data.meta.counts.filter(({ attribute }) => attribute);
  byId("profile").hidden = !groups.length;
  const who = { work: "workers with a job here", home: "workers who live here", both: "workers who live or work here" };
  const of = selection ? who[side] : "workers";
  const lacking = selection && side !== "work" ? groups.filter(({ columns }) => !draws[columns[0].id]) : [];
  byId("profile-of").textContent =
    `Shares of the ${whole.format(jobs)} ${of}.` + (column === EVERYBODY ? "" : " All of them, not only those counted above.") +
    (Object.keys(draws).length ? " In brackets: 90 % of the posterior draws of the true share are between these." : "") +
    (lacking.length ? noIntervals(data, lacking[0].columns[0].id, side === "both", `shares by ${lacking.map(({ attribute }) => attribute).join(", ")}`) : "");
  const bars = groups.flatMap(({ attribute, columns }) => [
    text("h4", capital(attribute)),
    ...columns.map(({ id, words }) => bar(capital(words), sums[id], jobs, jobs, "profile-bar", data.draws?.ends(draws[id]))),
  ]);
  byId("profile-bars").replaceChildren(...bars);
}

export function showSummary(state, found, unit, data, draws) {
  const { side, selection } = state;
  const kind = { work: "Workplace", home: "Residence", both: "Workplace and residence" }[side];
  byId("chosen").textContent = selection ? selectionName(selection, data.finest) : "The whole region";
  byId("chosen-kind").textContent = selection ? kind : "";
  byId("chosen-code").textContent = selection ? selectionCode(selection) : "";
  byId("counts-of").textContent = selection ? countsWords(selection, data) : "";
  byId("clear").hidden = !selection;
  byId("hint").hidden = Boolean(selection);
  byId("hint").textContent =
    side === "work"
      ? "Choose a workplace on the map, in the table or by search, and see where its workers live."
      : "Choose a residence on the map, in the table or by search, and see where its residents work.";
  const many = { work: selection?.external ? "with such a job" : "with a job here", home: "who live here", both: "who live or work here" }[side];
  byId("jobs-words").textContent = selection ? `synthetic workers ${many}` : "synthetic workers";
  byId("jobs").textContent = whole.format(found.jobs);
  const length = (km) => (Number.isNaN(km) ? "–" : `${oneDecimal.format(km / unit.km)} ${unit.id}`);
  byId("mean").textContent = length(found.mean);
  byId("median").textContent = length(found.median);
  const beyond = found.jobs - found.placed;
  const zones = [...found.externalZones.values()];
  const ends = verbOf(zones.some(({ live }) => live), zones.some(({ work }) => work));
  // Of coarser areas than the release has, centroids are means of those of blocks.
  const coarse = data.meta.later.length || data.meta.left_out.length;
  byId("measured-between").textContent = data.finest.many + (coarse ? " (the mean of their blocks’ centroids)" : "");
  byId("commute-of").textContent =
    `Commutes are measured between centroids of ${data.finest.many}` +
    (data.meta.later.length ? `, until ${data.meta.later.at(-1).many} are opened` : "") +
    (beyond > 0 ? `, without the ${whole.format(beyond)} who ${ends} in external zones.` : ".") +
    (found.draws ? ` ${commuteWords(data, found.draws, unit)}` : noCommuteIntervals(data, state));
  byId("jobs-interval").textContent = data.draws ? boundWords(data, state, draws) : "";
  const everybody = selection?.external && balanceOf(data, selection, EVERYBODY);
  const nobody = !everybody || everybody[side === "home" ? "live" : side === "work" ? "work" : "all"] ? "" : verbOf(side !== "work", side !== "home");
  byId("nobody").hidden = !nobody;
  byId("nobody").textContent = nobody && `This release has nobody who ${nobody.replace(/(live|work)/g, "$1s")} there.`;
}

/** From where to where the number of a choice may be in truth; or why that is not said. */
function boundWords(data, { side, selection, column }, { live, all }) {
  if (side === "work" || !selection) return "Jobs by place of work are public totals, and exact.";
  const ends = data.draws.ends(side === "home" ? live : all);
  if (!ends) return noIntervals(data, column, side === "both").trim();
  return `True number: ${intervalWords(ends)}, in 90 % of its posterior draws. What is counted above may lie outside: it has noise, or was drawn.`;
}

/** Why numbers have no interval, though the page has draws, as a sentence after others. Commuters are in tables of flows. */
export function noIntervals({ draws }, column, flows, of = "", where = "this page") {
  if (!draws) return "";
  const [table] = draws.tables.filter((each) => each.column === column && (!flows || each.works));
  const why = table ? `are of whole ${table.homes.many}` : "do not tell these jobs apart";
  return ` No interval${of && ` of ${of}`}: the draws in ${where} ${why}.`;
}

/** Why distances and directions have no interval. */
function noCommuteIntervals(data, { side, selection, column }) {
  const known = commuteTable(data, side, selection, column);
  const of = "distances and directions";
  return known ? ` No interval of ${of}: in a posterior draw nobody has such a commute.` : noIntervals(data, column, true, of);
}

function commuteWords({ draws }, { mean, median, level }, unit) {
  const words = (values) => `${draws.ends(values).map((km) => twoDecimals.format(km / unit.km)).join(" to ")} ${unit.id}`;
  return (
    `Mean and median of the true commutes: ${words(mean)} and ${words(median)} in 90 % of the posterior draws, if those between two ` +
    `${level.many} are as long as the released ones.`
  );
}

/** A button that chooses an area. */
export function areaButton(level, unit, words, choose) {
  const button = text("button", words);
  button.type = "button";
  button.dataset.code = level.codes[unit];
  button.title = `Choose ${areaName(level, unit)}`;
  button.addEventListener("click", choose);
  return button;
}

/** The strongest partners, or without a selection the largest areas; each can be chosen. */
export function showTop(data, state, { values, between, intervals }, jobs, choose) {
  const { selection, level, side, column } = state;
  const homes = countsHomes(state);
  const titles = { work: "Where its workers live", home: "Where its residents work", both: "Between it and elsewhere" };
  byId("top-title").textContent = selection ? titles[side] : homes ? "Where most people live" : "Where most people work";
  const units = Array.from(values.keys()).filter((unit) => values[unit] > 0 && !level.externalZones.has(unit));
  const shown = units.sort((a, b) => values[b] - values[a]).slice(0, TOP);
  const inZones = (numbers) => [...level.externalZones.keys()].reduce((total, unit) => total + numbers[unit], 0);
  const beyond = inZones(values);
  const ends = between ? verbOf(inZones(between.come), inZones(between.leave)) : verbOf(homes, !homes);
  byId("top-count").textContent =
    (units.length > shown.length
      ? `The ${shown.length} largest of ${whole.format(units.length)} ${level.many}.`
      : `All ${whole.format(units.length)} ${units.length === 1 ? level.one : level.many} with any.`) +
    (beyond > 0 ? ` ${whole.format(beyond)} (${share(beyond, jobs)}) ${ends} in external zones.` : "");
  const bounded = Boolean(intervals.values ?? intervals.come);
  const more = (words) => (intervals.values ? [words()] : []);
  const exact = side === "work" && !selection; // public totals
  byId("top-count").textContent +=
    bounded ? " Interval: 90 % of the posterior draws of the true number are in it."
    : exact ? ""
    : noIntervals(data, column, Boolean(selection));
  // Of the level's table of flows; totals of areas are another one.
  byId("top").classList.toggle("of-noise", Boolean(level.noise && selection));
  byId("top").replaceChildren(
    tableRow("th", [
      capital(level.one),
      ...(between ? ["Come from", "Go to"] : [homes ? "Residents" : "Jobs"]),
      ...more(() => "Interval"),
      "Share",
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
  const { one, many } = data.finest;
  const others = found.noDirection - found.inOne;
  const number = (jobs, values) => whole.format(jobs) + bracketed(of(values));
  const where = [
    ...(found.inOne ? [`${number(found.inOne, draws?.inOne)} jobs have home and work in one ${one}`] : []),
    ...(others ? [`${number(others, draws?.sameCentroid)} in two ${many} with the same centroid`] : []),
  ];
  byId("no-direction").textContent = where.length
    ? `${where.join(", ")}: distance 0, which is in mean and median, and no direction.`
    : "";
  byId("placed").textContent =
    `Shares are of the ${number(found.placed, draws?.jobs)} jobs with a distance.` +
    (draws
      ? ` In brackets, and below the numbers of the table: 90 % of the posterior draws of what is true are between these, if jobs ` +
        `between two ${draws.level.many} have distances and directions as the released ones.`
      : "");
}

/** Who lives, and who works, in external zones; each can be chosen. */
export function showExternalZones(found, data, intervalOf, choose) {
  const level = data.levels[0];
  const beyond = [...found.externalZones].sort((a, b) => b[1].jobs - a[1].jobs);
  const ends = ["live", "work"].filter((end) => beyond.some(([, zone]) => zone[end]));
  byId("external-zones").hidden = beyond.length === 0;
  byId("external-zones-title").textContent = `Workers who ${ends.join(" or ")} in external zones`;
  byId("external-zones-work").hidden = !ends.includes("work");
  byId("external-zones-table").replaceChildren(
    tableRow("th", ["External zone", ...ends.map((end) => (end === "live" ? "Residents" : "Jobs")), "Share"]),
    ...beyond.map(([finest, zone]) => {
      const unit = level.unitOf[finest];
      const row = tableRow("td", ["", ...ends.map(() => ""), share(zone.jobs, found.jobs)]);
      ends.forEach((end, at) => row.children[1 + at].append(...numberWith(zone[end], intervalOf[end](unit))));
      row.cells[0].append(areaButton(level, unit, areaName(level, unit), (event) => choose(unit, event)));
      return row;
    }),
  );
}

/** The areas of a level that overlap the selection: itself, or larger ones. */
function ownWords(level, selection) {
  const { n, whole: all } = selection.cover(level);
  const one = selection.parts.length === 1;
  if (all) return one ? "the chosen area itself" : "the chosen areas themselves";
  if (n === 1) return `the ${level.one} that the chosen area${one ? " lies" : "s lie"} in`;
  return `${level.many} that the chosen area${one ? " overlaps" : "s overlap"}`;
}

export function showFlowWords({ side, selection, level }, { flows, inside, beyond }, shown, threshold, { chosen, together }, zones) {
  const between = flows.jobs.reduce((a, b) => a + b, 0);
  const seen = shown.reduce((total, { jobs }) => total + jobs, 0);
  byId("threshold-words").textContent =
    `${whole.format(threshold)} ${threshold === 1 ? "job" : "jobs"} or more`;
  const of = `${whole.format(chosen.length)} of ${whole.format(flows.length)} flows`;
  const part = `${share(seen, between)} of the ${whole.format(between)} jobs that all of them have.`;
  const left = together ? together.flows.length - shown.length : 0;
  const drawn = together
    ? `${of} have as many. They are drawn as ${whole.format(shown.length)} lines, with ${part} Ends near each other at this zoom ` +
      `are one` + (together.near ? `, and ${whole.format(together.near)} jobs between such ends have no line.` : ".") +
      (left ? ` ${whole.format(left)} smaller lines are left out.` : "")
    : flows.length ? `${of} drawn, with ${part}` : "There are no flows to draw.";
  const own = selection ? ownWords(level, selection) : `the ${level.one} where they work`;
  const who = side === "work" || !selection ? "of workers who live in" : "at workplaces in";
  const all = between + inside + beyond;
  const without = `${whole.format(inside)} (${share(inside, all)})`;
  const stay = side === "both" && selection ? `${without} stay, or have their other end in ${own}, and have no line.` : "";
  const rest = inside ? ` ${stay || `${without} are ${who} ${own}, and have no line.`}` : "";
  const further = beyond ? ` ${whole.format(beyond)} (${share(beyond, all)}) work in ${zones}, and have no line.` : "";
  byId("flow-count").textContent = drawn + rest + further;
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
    return legendEntry(`${whole.format(n)} ${n === 1 ? "job" : "jobs"}`, { height }, "line");
  });
  const arrow = legendEntry("from home to work", {}, "arrow");
  const star = text("li", side === "work" ? "to the chosen workplace" : "from the chosen residence");
  byId("legend-flows").replaceChildren(selection && side !== "both" ? star : arrow, ...lines);
  byId("legend-flows").hidden = !jobs.length;
}

export function showLegend(state, { coloured, dense, breaks, differences }, drawnAround) {
  const { selection, level } = state;
  byId("legend-title").textContent = `${countedThing(state)}${dense ? " per km²" : ""} by ${level.one}`;
  const words = (dense ? densityWords : classWords)(breaks, coloured.reduce((most, value) => Math.max(most, value), 0));
  const entry = (fill, label) => legendEntry(label, { background: fill });
  const colours = rampColours(words.length);
  const entries = differences
    ? differenceWords(breaks, coloured).map(([value, label]) => entry(differenceColour(value, breaks), label))
    : words.map((label, i) => entry(colours[i], label));
  byId("legend-classes").replaceChildren(...entries.reverse(), entry(colour("land"), differences ? "no difference" : "none"));
  if (differences) byId("legend-title").textContent += ": difference";
  byId("legend-circles").hidden = Boolean(level.shapes);
  byId("legend-chosen").hidden = !selection;
  byId("legend-zones").hidden = !level.externalZones.size;
  byId("legend-zones-dense").hidden = !dense;
  byId("legend-cells").hidden = !(level.shapes && drawnAround);
}
