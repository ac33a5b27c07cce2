// What the reader has chosen, and everything that follows from it.

import { addressOf, needsMore, readAddress, yearsIn } from "./address.js";
import { MOST_TOGETHER, clusteredFlows } from "./clusters.js";
import {
  classedDifferences,
  differencesOf,
  fetchMap,
  parsed,
  publishedMaps,
  readOtherMap,
  samePart,
  sameState,
  showComparison,
  showOther,
  signed,
  wholeRegion,
} from "./compare.js";
import { EVERYBODY, FetchError, countAlike, inMegabytes, isBeside, readBackdrop, readData, setDraws, sizeOf, unpack, wholeSize } from "./data.js";
import { byId, text, wantsMore } from "./dom.js";
import {
  FLOW_COLUMNS,
  areaRows,
  csvOf,
  endsOfFlows,
  flowRows,
  geojsonOf,
  keptName,
  pictureOf,
  save,
  sourceOf,
} from "./download.js";
import { balanceDraws, commuteDraws, partnerDraws, shareDraws, zoneIntervals } from "./draws.js";
import { balanceOf, commutes, flowsOf, mapped, partnersOf, sumsOf, totalsOf } from "./flows.js";
import { FileError } from "./geojson.js";
import { Later } from "./later.js";
import { MapView, isSmall } from "./mapview.js";
import {
  countedWords,
  fillChoices,
  fillWarning,
  offerChoices,
  showBalance,
  showCommutes,
  showCounted,
  showExternalZones,
  showFlowLegend,
  showFlowWords,
  showLegend,
  showNoise,
  showProfile,
  showSides,
  showSummary,
  showTop,
  zonesOfWork,
} from "./panel.js";
import { say } from "./phrases.js";
import { areaCode, capital, endName, isElsewhere, standingFor } from "./places.js";
import { UNITS, bracketed, classBreaks, differenceBreaks, fromSlider, isUneven, toSlider } from "./scale.js";
import { SearchField } from "./search.js";
import { partKey, partOfKey, selectionCode, selectionName, selectionOf } from "./selection.js";
import { Tools } from "./tools.js";
import { Years } from "./years.js";

const MOST_LINES = 1000; // more are drawn as fewer
const FIRST_LINES = { all: 80, chosen: 40 }; // drawn before the reader moves the slider

let data = await readData(); // of the year that is shown
const years = new Years(data);
const backdrop = await readBackdrop();

/** Detailed, but not too much to take in: the level, not of noise, that is nearest to a hundred areas of the region. */
function firstLevel() {
  const off = (level) => Math.abs(Math.log((level.codes.length - level.externalZones.size) / 100));
  const sound = data.levels.filter((level) => !level.noise);
  return (sound.length ? sound : data.levels).reduce((best, level) => (off(level) < off(best) ? level : best));
}

const state = {
  side: "work",
  level: firstLevel(),
  column: EVERYBODY,
  density: null,
  unit: UNITS.km,
  selection: null,
  other: null, // is set beside it
  year: years.first,
  since: null, // an earlier year, since which changes are shown
};
let shown = null; // what follows from the state
let found = { of: null }; // commutes of the selection; another level of the map does not change them
let sliderOf = null; // the flows that the slider was set for; from then on it is the reader's
let balance = { of: null }; // who comes, stays and leaves, and who they are
let otherMap = null; // the data of another release
let waitingToKeep = null; // the state, in the address
const warned = new Set(); // ids of levels of noise that the reader has chosen to see
let waiting = null; // the id of the level that a warning is about
let themeChosen = false; // by the reader, not by the system
let wantedYears = null; // those that were asked for last

/** The levels that the page did not begin with, and draws, where they are large. */
const finer = data.meta.later.length
  ? new Later(data.meta.later.at(-1).many, wholeSize(), async (tell) => take(await readData(document, true, tell)))
  : null;
const intervals = data.meta.draws?.later
  ? new Later(say("intervals"), sizeOf(byId("draws")), async (tell) => takeDraws(await unpack(document, "draws", tell)))
  : null;

/** Whether all levels are here, once that is known; where they could not be fetched, the reader may have `again` done. */
const readWhole = async (again) => data !== years.own || !finer || finer.get(again);

/** Take data with more levels of the release that the page opens with. */
function take(more) {
  const before = years.own;
  if (before.packedDraws) setDraws(more, before.packedDraws);
  years.own = more;
  if (data !== before) return; // another year is shown
  use(more);
  if (shown) render();
}

/** Show the same with other data: with more levels, or of another year. What these lack is left out, and said. */
function use(next) {
  let missing = 0;
  const again = (selection) => {
    if (!selection || selection === data.region) return selection && wholeRegion(next);
    const parts = selection.parts.map((part) => samePart(data, next, part)).filter(Boolean);
    missing += selection.parts.length - parts.length;
    return selectionOf(next, parts);
  };
  Object.assign(state, { selection: again(state.selection), other: again(state.other) });
  if (!state.selection && state.side === "both") setSide("work");
  const level = next.levels.find(({ id }) => id === state.level.id) ?? next.finest;
  state.level = level.noise && !warned.has(level.id) ? (next.levels.findLast(({ noise }) => !noise) ?? level) : level;
  if (!countAlike(data, next, state.column)) state.column = EVERYBODY;
  data = next;
  offerChoices(data, years.own);
  byId("level").value = state.level.id;
  byId("count").value = state.column;
  [field, tools, view].forEach((each) => each?.setData(data));
  [found, balance] = [{ of: null }, { of: null }];
  if (missing) tools.say(say("not_in_map", { n: missing }), true);
}

/** Whether years were read, once that is known; null stands for none. Where they were not, the page says why. */
async function readYears(...asked) {
  const wanted = (wantedYears = asked);
  const lacking = asked.filter((year) => year !== null && !years.data(year));
  const words = byId("year-status");
  if (lacking.length) words.textContent = say("fetching", { title: lacking.join(", ") });
  try {
    await Promise.all(lacking.map((year) => years.read(year)));
  } catch (error) {
    if (!(error instanceof FileError || error instanceof FetchError)) throw error;
    if (wanted === wantedYears) words.textContent = `${lacking.join(", ")}: ${error.message}`;
    years.show(seen(), data); // the slider is where it was
    return false;
  }
  if (wanted === wantedYears) words.textContent = "";
  return wanted === wantedYears;
}

/** Take a year, and a year since which changes are shown or null; both have been read. */
function setYears(year, since) {
  Object.assign(state, { year, since });
  if (since !== null) otherMap = null;
  if (years.data(year) !== data) use(years.data(year));
}

async function chooseYears(year, since) {
  if (!(await readYears(year, since))) return;
  setYears(year, since);
  render();
}

/** The state, with the years of a change where one is shown, in words. */
function seen() {
  const { year, since } = state;
  return { ...state, change: since !== null && since < year ? { year: String(year), since: String(since) } : null };
}

/** Show intervals too. */
function takeDraws(packed) {
  setDraws(years.own, packed);
  if (document.activeElement === byId("open-intervals")) byId("chosen").focus();
  byId("open-intervals").hidden = true;
  [found, balance] = [{ of: null }, { of: null }];
  render();
}

/** Choose a part alone; or add it to what is chosen, or take it away if it is chosen already. */
async function choosePart(part, add = false) {
  // Other parts than areas count areas of the finest level.
  if (data.meta.later.length && part.kind !== "area") {
    const key = partKey(part);
    if (!(await readWhole(() => choosePart(part, add)))) return;
    part = partOfKey(data, key);
  }
  const parts = state.selection?.parts ?? [];
  const others = parts.filter((each) => partKey(each) !== partKey(part));
  choose(selectionOf(data, !add ? [part] : others.length < parts.length ? others : [...parts, part]));
}

function choose(selection) {
  state.selection = selection;
  // Where nobody works there is nothing to see but where its residents work; in a kind of work without a place nobody lives.
  if (selection?.external) {
    const { work, live } = balanceOf(data, selection, EVERYBODY);
    if (!work) setSide("home");
    else if (!live) setSide("work");
  }
  // Without a choice nobody comes or leaves.
  if (!selection && state.side === "both") setSide("work");
  field.clear();
  tools.stop();
  render();
  byId("chosen").scrollIntoView({ block: "nearest" });
  if (selection && view) view.reveal(selection);
  // Where the button that was pressed is no longer there, keys go on from what it chose.
  if (document.activeElement === document.body) byId("chosen").focus();
}

/** Whether colours can be per square kilometre: where an area is chosen, readers ask how many, and not how densely. */
const canBeDense = () => state.level.area !== null && !state.selection;
/** Whether they are: as the reader wants, or else where areas differ much in size. */
const isDense = () => canBeDense() && (state.density ?? isUneven(state.level));

/** Keep the state in the address; as a step that Back and Undo return from, or in place of the one before. */
function remember() {
  clearTimeout(waitingToKeep);
  waitingToKeep = setTimeout(keep, 100); // changes in one blink are one step
}

function keep() {
  clearTimeout(waitingToKeep);
  const address = addressOf(linked(), view?.camera);
  const [kept, now] = [withoutView(location.hash), withoutView(address)];
  if (kept !== now && kept !== "") history.pushState({ steps: (history.state?.steps ?? 0) + 1 }, "", address);
  else history.replaceState(history.state, "", address);
  byId("undo").disabled = !history.state?.steps;
}

/** The state as links have it: a year where it is not the one that the page opens with. */
const linked = () => ({ ...state, year: data === years.own ? null : state.year });

/** An address without the part of the map that is seen, which is no step. */
const withoutView = (address) => address.replace(/&view=[^&]*/, "").replace(/^#(?!level=).*$/, "");

/** Show what an address says, and return whether it says anything of a map. */
async function follow(address) {
  const asked = yearsIn(address);
  const [year, since] = [years.has(asked.year) ? asked.year : years.first, years.has(asked.since) ? asked.since : null];
  const isHere = (each) => each === null || years.data(each) !== null;
  if (!isHere(year) || !isHere(since)) {
    if (!(await readYears(year, since))) return false;
    if (location.hash !== address) return false; // the reader has gone on
  }
  if (year === years.first && needsMore(years.own, address)) {
    if (!(await finer.get(() => follow(address)))) return false;
    if (location.hash !== address) return false;
  }
  const said = readAddress(years.data(year), address);
  if (!said) return false;
  setYears(year, since);
  const { level, missing, view: camera, ...rest } = said;
  const other = level.noise && !warned.has(level.id);
  Object.assign(state, rest, other ? {} : { level });
  setSide(state.side);
  byId("level").value = state.level.id;
  byId("count").value = state.column;
  byId("unit").value = state.unit.id;
  tools.stop();
  render();
  if (missing) tools.say(say("not_in_map", { n: missing }), true);
  const strange = [asked.year, asked.since].filter((each) => each !== null && !years.has(each));
  if (strange.length) tools.say(say("year_unknown", { years: strange.join(", ") }), true);
  if (camera) view?.setCamera(camera);
  clearTimeout(waitingToKeep); // it is no step
  history.replaceState(history.state, "", addressOf(linked(), view?.camera));
  byId("undo").disabled = !history.state?.steps;
  if (other) openLevel(level);
  return true;
}

/** @returns {HTMLInputElement} */
const sideButton = (side) => document.querySelector(`input[name=side][value=${side}]`);

function setSide(side) {
  state.side = side;
  sideButton(side).checked = true;
}

function counted(box) {
  const words = countedWords(data, state.column);
  if (words) box.append(text("div", capital(words)));
  return box;
}

/** The interval of a line that stands for one flow; null where it is not known. */
function endsOfLine(home, work) {
  const [from, to] = [home ?? null, work ?? null]; // an end that is the selection's is in no feature
  shown.endsOfLines ??= endsOfFlows(data, state, shown, [...shown.drawn]) ?? [];
  return shown.endsOfLines[[...shown.drawn].findIndex((flow) => flow.home === from && flow.work === to)];
}

const tell = {
  area(unit) {
    const { level, column, side, selection } = state;
    const box = text("div", "");
    const together = isElsewhere(level, unit);
    box.append(text("strong", endName(level, unit)), text("div", together ? "" : areaCode(level, unit), "code"));
    const sum = (values) => standingFor(level, unit).reduce((total, each) => total + values[each], 0);
    if (selection) {
      const { values, between } = shown;
      const [come, leave] = between ? [between.come, between.leave] : [values, values];
      const { values: own, come: comeEnds = own, leave: leaveEnds = own } = shown.intervals;
      const number = (n, ends) => ({ n: sum(n), interval: together ? "" : bracketed(ends?.(unit)) });
      if (side !== "home") box.append(text("div", say("chosen_live_here", number(come, comeEnds))));
      if (side !== "work") box.append(text("div", say("chosen_work_here", number(leave, leaveEnds))));
    }
    const jobs = (place) => sum(shown.totals[place](level, column));
    shown.residents ??= partnerDraws(data, "home", null, level, column).values ?? [];
    const ends = together ? null : data.draws?.ends(shown.residents[unit]);
    const { compared, change } = shown;
    if (compared?.values && change) {
      const interval = together ? null : compared.intervals.of?.(unit)[2];
      box.append(text("div", say("changed_here", { ...change, change: signed(sum(compared.values)) + bracketed(interval) })));
    }
    box.append(text("div", say("workers_here", { n: jobs("home"), interval: bracketed(ends) })), text("div", say("jobs_here", { n: jobs("work") })));
    return counted(box);
  },
  flow({ home, work, jobs, n }) {
    const { level, selection } = state;
    const { cells } = shown;
    const end = (name, unit) => {
      const words = (area) => (name === "from" ? say("from", { area }) : say("to", { area }));
      const own = unit === null || unit === undefined;
      if (!own && cells) {
        const { unit: largest, n: all } = cells[unit];
        const area = endName(level, largest);
        return text("div", words(all > 1 ? say("and_near", { area, n: all - 1 }) : area));
      }
      const line = text("div", words(own ? selectionName(selection, data.finest) : endName(level, unit)));
      line.append(text("span", own ? selectionCode(selection) : isElsewhere(level, unit) ? "" : areaCode(level, unit), "code"));
      return line;
    };
    const box = text("div", "");
    const number = say("n_jobs", { n: jobs });
    const words = n > 1 ? say("in_flows", { jobs: number, n }) : number;
    box.append(text("strong", words + bracketed(cells ? null : endsOfLine(home, work))));
    box.append(end("from", home), end("to", work));
    return counted(box);
  },
};

const pick = (level, unit, event) => choosePart({ kind: "area", level, unit }, wantsMore(event));
/** The same on the map, where a circle may stand for several zones: the table has each of them. */
function pickOnMap(unit, event) {
  if (!isElsewhere(state.level, unit)) return pick(state.level, unit, event);
  byId("external-zones-others").open = true;
  byId("external-zones").scrollIntoView();
}

const field = new SearchField(data, choosePart, readWhole);
let view = null;
try {
  view = new MapView(data, backdrop, pickOnMap, tell);
} catch {
  // The panel works without, and the picture stays.
  byId("no-map").hidden = false;
  byId("opening").hidden = true;
}
const tools = new Tools(data, view, choosePart, readWhole);

function render() {
  const { side, selection, level, column, unit } = state;
  const between = side === "both" ? partnersOf(data, selection, level, column) : null;
  const values = mapped(data, side, selection, level, column);
  const partners = partnerDraws(data, side, selection, level, column);
  const { change } = seen();
  const other = change ? years.data(state.since) : otherMap;
  const compared = other && differencesOf(data, other, state, values);
  const differences = Boolean(compared?.values);
  const dense = isDense() && !differences;
  byId("density").checked = dense;
  byId("density").disabled = differences;
  // Areas without a shape are on no map.
  const density = (value, at) => (level.area[at] > 0 ? value / level.area[at] : 0);
  const coloured = differences ? compared.values : dense ? values.map(density) : values;
  // Classes are made for the areas; an external zone, often larger than any, has one of theirs. They are the same in every year.
  const first = change || !differences ? inFirstYear(change && other) : null;
  const inside = (list) => list.filter((_, at) => !level.externalZones.has(at));
  const breaks =
    differences ? differenceBreaks(classedDifferences(first?.compared ?? compared, level))
    : dense ? classBreaks(inside(first?.values.map(density) ?? coloured), 0.001)
    : classBreaks(inside(first?.values ?? coloured));
  const drawable = flowsOf(data, side, selection, level, column);
  const { flows } = drawable;
  const known = {};
  const total = (place) => (l, c) => (known[place] ??= totalsOf(data, place, l, c));
  const { values: own, ...ways } = partners;
  const endsBy = ([name, lists]) => [name, (at) => data.draws.ends(lists[at])];
  const ends = Object.fromEntries(Object.entries(between || !own ? ways : { values: own }).map(endsBy));
  const { within } = (differences && compared.intervals) || {};
  const totals = { home: total("home"), work: total("work") };
  shown = { values, intervals: ends, partners, between, other, change, compared, differences, within, coloured, dense, breaks, drawable, totals };

  const of = [side, column, unit.id, selection?.key].join(" ");
  if (found.of !== of) {
    found = { of, ...commutes(data, side, selection, column, unit.km), draws: commuteDraws(data, side, selection, column, unit.km) };
  }
  if (balance.of !== `${side} ${column} ${selection?.key}`) {
    balance = { of: `${side} ${column} ${selection?.key}`, sums: sumsOf(data, side, selection) };
    balance.shares = shareDraws(data, side, selection);
    balance.draws = {};
    if (selection) {
      Object.assign(balance, balanceOf(data, selection, column), { draws: balanceDraws(data, selection, column) });
    }
  }
  showCounted(countedWords(data, column));
  showSides(state);
  showSummary(state, found, unit, data, balance.draws);
  tools.show(selection, (part) => choosePart(part, true));
  showBalance(data, state, balance);
  const all = between ? balance.all - balance.stay : found.jobs;
  showTop(data, state, shown, all, (at, event) => pick(level, at, event));
  showExternalZones(found, data, zoneIntervals(data, state), (at, event) => pick(data.levels[0], at, event));
  showProfile(data, state, balance.sums, balance.shares);
  showComparison(data, state);
  byId("keep").hidden = !selection;
  showOther(data, other, compared, values, seen(), (at, event) => pick(level, at, event));
  showCommutes(found, unit, data);
  showColours();
  years.show(seen(), data);
  showNoise(level);
  byId("density").closest("label").hidden = byId("density-rule").hidden = !canBeDense();
  const ofFlows = [side, column, level.id, selection?.key].join(" ");
  if (sliderOf !== ofFlows) {
    sliderOf = ofFlows;
    const many = selection ? FIRST_LINES.chosen : FIRST_LINES.all;
    const first = flows.jobs[Math.min(many, flows.length) - 1] ?? 1;
    byId("threshold").value = Math.ceil(toSlider(first, flows.jobs[0] ?? 1));
  }
  view?.showAreas(level, shown);
  view?.showSelection(selection);
  view?.setUnit(unit.id);
  renderFlows();
  remember();
}

function renderFlows() {
  const { flows } = shown.drawable;
  // Lines would hide the classes of differences, and are of this release alone.
  byId("flows").hidden = byId("save-flows").disabled = shown.differences;
  if (shown.differences) {
    Object.assign(shown, { drawn: flows.first(0), cells: null, endsOfLines: null });
    showFlowLegend(state, [], 1);
    return drawFlows([], { cells: null, largest: 1, arrowed: false });
  }
  const largest = flows.jobs[0] ?? 1;
  const threshold = fromSlider(byId("threshold").value, largest);
  const chosen = flows.atLeast(threshold);
  // Of more lines than can be told apart, those between ends that are near each other are one.
  const together = chosen.length > MOST_LINES && view ? clusteredFlows(chosen, state.level, view.map.getZoom()) : null;
  const drawn = together ? together.flows.slice(0, MOST_TOGETHER) : [...chosen];
  Object.assign(shown, { drawn: chosen, cells: together?.cells, endsOfLines: null });
  byId("threshold").setAttribute("aria-valuetext", say("at_least", { n: threshold }));
  const widest = together ? (drawn[0]?.jobs ?? 1) : largest;
  showFlowWords(state, shown.drawable, drawn, threshold, { chosen, together }, zonesOfWork(data));
  showFlowLegend(state, drawn, widest);
  drawFlows(drawn, { cells: shown.cells, largest: widest, arrowed: !state.selection || state.side === "both" });
}

function drawFlows(flows, how) {
  const { selection, level } = state;
  byId("legend-zones").hidden = !view?.showFlows(flows, { selection, level, ...how });
}

/** Show a level; of one that is noise say so first, once. */
function openLevel(level) {
  if (level.noise && !warned.has(level.id)) {
    fillWarning(data, level);
    waiting = level.id;
    if (!byId("warning").open) byId("warning").showModal();
    return;
  }
  state.level = level;
  byId("level").value = level.id;
  render();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", theme === "dark");
  if (!shown) return;
  view?.paint();
  showColours();
}

const showColours = () => showLegend(seen(), shown, data.meta.drawn_around_centroids, years.several);

/**
 * What the release that the page opens with has of what is shown: {values, compared: with a release of an earlier year}. Null where
 * this is it, or where it lacks what is chosen.
 */
function inFirstYear(since) {
  const { own, first } = years;
  if (data === own || (since && since.meta.release.year >= first)) return null;
  const same = sameState(data, own, state);
  if (same.problem) return null;
  const values = mapped(own, same.side, same.selection, same.level, same.column);
  if (!since) return { values };
  const compared = differencesOf(own, since, same, values);
  return compared.values ? { values, compared } : null;
}

/** Show another map beside this one, once it has been read. */
async function layBeside(name, read) {
  try {
    otherMap = await read();
    state.since = null;
    tools.say("");
    render();
  } catch (error) {
    if (!(error instanceof FileError)) throw error;
    tools.say(`${name}: ${error.message}`, true);
  }
}

function listen() {
  ["work", "home", "both"].forEach((side) =>
    sideButton(side).addEventListener("change", () => {
      state.side = side;
      render();
    }),
  );
  const levelOf = (wanted) => data.levels.find(({ id }) => id === wanted);
  const want = async (wanted) => {
    byId("level").value = state.level.id; // until the reader has seen what there is to say of it
    if (levelOf(wanted) || (await readWhole(() => want(wanted)))) openLevel(levelOf(wanted));
  };
  byId("level").addEventListener("change", (event) => want(event.target.value));
  byId("open-intervals").addEventListener("click", () => openIntervals());
  byId("warning-show").addEventListener("click", () => {
    warned.add(waiting);
    byId("warning").close();
    openLevel(levelOf(waiting));
  });
  byId("warning-back").addEventListener("click", () => byId("warning").close());
  byId("count").addEventListener("change", (event) => {
    state.column = event.target.value;
    render();
  });
  byId("density").addEventListener("change", (event) => {
    state.density = event.target.checked;
    render();
  });
  byId("unit").addEventListener("change", (event) => {
    state.unit = UNITS[event.target.value];
    render();
  });
  byId("threshold").addEventListener("input", renderFlows);
  byId("clear").addEventListener("click", () => choose(null));
  byId("keep").addEventListener("click", () => {
    state.other = state.selection;
    render();
    tools.say(say("kept"));
  });
  byId("swap").addEventListener("click", () => {
    const { other } = state;
    state.other = state.selection ?? wholeRegion(data);
    choose(other === data.region ? null : other);
  });
  byId("end-comparison").addEventListener("click", () => {
    state.other = null;
    render();
    byId("chosen").focus();
  });
  byId("other-file").addEventListener("change", async (event) => {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    await layBeside(file.name, async () => readOtherMap(parsed(await file.text())));
  });
  const published = byId("published");
  byId("several").addEventListener("toggle", async () => {
    if (!published.dataset.list || published.options.length > 1) return;
    const versions = await publishedMaps(published.dataset.list);
    published.append(...versions.map(({ title, address }) => new Option(title, address)));
    published.closest("label").hidden = !versions.length;
  });
  published.addEventListener("change", async () => {
    const { value, text: title } = published.selectedOptions[0];
    published.value = "";
    if (!value) return;
    tools.say(say("fetching", { title }));
    await layBeside(title, async () => readOtherMap(await fetchMap(value)));
  });
  byId("end-other").addEventListener("click", () => {
    otherMap = state.since = null;
    render();
    byId("chosen").focus();
  });
  byId("year").addEventListener("input", () => chooseYears(years.list[byId("year").valueAsNumber], state.since));
  byId("since").addEventListener("change", (event) => chooseYears(state.year, event.target.value ? Number(event.target.value) : null));
  const fileName = (what) =>
    keptName(data.meta.release, [what, ...(years.several ? [state.year] : []), state.side, state.level.id].join("-"));
  const downloads = {
    "save-csv": () => save(`${fileName("map")}.csv`, csvOf(areaRows(state, shown), sourceOf(data, state, shown.other)), "text/csv"),
    "save-flows": () => {
      const flows = [...shown.drawn];
      const table = csvOf(flowRows(state, flows, endsOfFlows(data, state, shown, flows)), sourceOf(data, state), FLOW_COLUMNS);
      save(`${fileName("flows")}.csv`, table, "text/csv");
    },
    "save-geojson": () =>
      save(`${fileName("map")}.geojson`, geojsonOf(state, shown, sourceOf(data, state, shown.other)), "application/geo+json"),
    "save-png": async () => save(`${fileName("map")}.png`, await pictureOf(view.map, sourceOf(data, state, shown.other), data.meta.attribution), "image/png"),
  };
  Object.entries(downloads).forEach(([id, work]) => byId(id).addEventListener("click", work));
  byId("save-png").hidden = !view;
  byId("undo").addEventListener("click", () => history.back());
  byId("link").addEventListener("click", async () => {
    keep();
    try {
      await navigator.clipboard.writeText(location.href);
      tools.say(say("copied"));
    } catch {
      tools.say(say("not_copied"));
    }
  });
  window.addEventListener("popstate", () => {
    clearTimeout(waitingToKeep);
    follow(location.hash);
  });
  view?.map.on("moveend", remember);
  view?.map.on("zoomend", () => shown?.cells && renderFlows());
  byId("backdrop").closest("label").hidden = !view || !Object.keys(backdrop).length;
  byId("backdrop").addEventListener("change", (event) => view.showBackdrop(event.target.checked));
  byId("labels").closest("label").hidden = !view?.labels.length;
  byId("labels").addEventListener("change", (event) => view.showLabels(event.target.checked));
  byId("zoom").addEventListener("click", () => view?.zoomTo(state.selection));
  const theme = () => document.documentElement.dataset.theme;
  byId("theme").addEventListener("click", () => {
    themeChosen = true;
    setTheme(theme() === "dark" ? "light" : "dark");
  });
  // Paper is white, and has the whole legend: what is copied to it is drawn so first.
  let onScreen = null;
  const toPaper = () => {
    if (onScreen) return;
    onScreen = { theme: theme(), legend: byId("legend").open };
    byId("legend").open = true;
    setTheme("light");
    view?.toPaper();
  };
  const fromPaper = () => {
    if (!onScreen) return;
    view?.fromPaper();
    setTheme(onScreen.theme);
    byId("legend").open = onScreen.legend;
    onScreen = null;
    document.body.classList.remove("report");
  };
  window.addEventListener("beforeprint", toPaper);
  window.addEventListener("afterprint", fromPaper);
  byId("print").addEventListener("click", () => window.print());
  byId("report").addEventListener("click", () => {
    document.body.classList.add("report");
    window.print();
  });
  byId("fold").addEventListener("click", () => {
    const folded = document.body.classList.toggle("folded");
    byId("fold").setAttribute("aria-expanded", !folded);
    byId("fold").textContent = folded ? say("show_panel") : say("hide_panel");
    view?.map.resize();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.selection && !byId("warning").open) choose(null);
    const writes = /** @type {Element} */ (event.target).matches?.("input:not([type=radio], [type=checkbox], [type=range])");
    if (event.key === "z" && (event.ctrlKey || event.metaKey) && !writes && history.state?.steps) history.back();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    if (!themeChosen) setTheme(event.matches ? "dark" : "light");
  });
}

/** Those that lie beside the page are fetched when the reader asks for them. */
const openIntervals = () => intervals.get(openIntervals);

fillChoices(data);
byId("legend").open = !isSmall(); // it would hide the map
byId("level").value = state.level.id;
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
await view?.ready;
listen();
const link = location.hash;
const ofYears = Object.values(yearsIn(link)).some((year) => year !== null);
const more = ofYears || needsMore(data, link); // comes after the first picture
if (more || !(await follow(link))) {
  render();
  if (state.level.noise) openLevel(state.level); // every level is
}
if (more) clearTimeout(waitingToKeep); // the link stays in the address until it is followed
if (view) byId("still").remove(); // before the areas are drawn: above the map it would be drawn in each frame, too
await view?.whenDrawn();
// For whoever waits for the page: milliseconds from its opening until it is drawn, and answers.
document.documentElement.dataset.ready = String(Math.round(performance.now()));
const { list } = byId("published").dataset;
const { several } = years;
if (ofYears) await years.find(list);
if (more) await follow(link);
if (intervals && !isBeside(byId("draws"))) openIntervals();
else if (intervals) {
  byId("open-intervals").textContent = say("show_intervals_of", { megabytes: inMegabytes(sizeOf(byId("draws"))) });
  byId("open-intervals").hidden = false;
}
if (!ofYears) await years.find(list);
if (years.several !== several) {
  years.show(seen(), data);
  showColours();
}
