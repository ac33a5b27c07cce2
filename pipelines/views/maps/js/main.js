// What the reader has chosen, and everything that follows from it.

import { addressOf, needsMore, readAddress } from "./address.js";
import { MOST_TOGETHER, clusteredFlows } from "./clusters.js";
import { differencesOf, fetchOtherMap, publishedMaps, readOtherMap, showComparison, showOther, wholeRegion } from "./compare.js";
import { EVERYBODY, inMegabytes, isBeside, readBackdrop, readData, setDraws, sizeOf, unpack, wholeSize } from "./data.js";
import { byId, text, wantsMore } from "./dom.js";
import {
  FLOW_COLUMNS,
  areaRows,
  csvOf,
  endsOfFlows,
  flowRows,
  geojsonOf,
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

const MOST_LINES = 1000; // more are drawn as fewer
const FIRST_LINES = { all: 80, chosen: 40 }; // drawn before the reader moves the slider

let data = await readData();
const backdrop = await readBackdrop();

/** Detailed, but not too much to take in: the level, not of noise, that is nearest to a hundred areas of the region. */
function firstLevel() {
  const off = (level) => Math.abs(Math.log((level.codes.length - level.externalZones.size) / 100));
  const sound = data.levels.filter((level) => !level.noise);
  return (sound.length ? sound : data.levels).reduce((best, level) => (off(level) < off(best) ? level : best));
}

const state = { side: "work", level: firstLevel(), column: EVERYBODY, density: null, unit: UNITS.km, selection: null, other: null }; // the other is set beside it
let shown = null; // what follows from the state
let found = { of: null }; // commutes of the selection; another level of the map does not change them
let sliderOf = null; // the flows that the slider was set for; from then on it is the reader's
let balance = { of: null }; // who comes, stays and leaves, and who they are
let otherMap = null; // the data of another release
let waitingToKeep = null; // the state, in the address
const warned = new Set(); // ids of levels of noise that the reader has chosen to see
let waiting = null; // the id of the level that a warning is about
let themeChosen = false; // by the reader, not by the system

/** The levels that the page did not begin with, and draws, where they are large. */
const finer = data.meta.later.length
  ? new Later(data.meta.later.at(-1).many, wholeSize(), async (tell) => take(await readData(document, true, tell)))
  : null;
const intervals = data.meta.draws?.later
  ? new Later(say("intervals"), sizeOf(byId("draws")), async (tell) => takeDraws(await unpack(document, "draws", tell)))
  : null;

/** Whether all levels are here, once that is known; where they could not be fetched, the reader may have `again` done. */
const readWhole = async (again) => !finer || finer.get(again);

/** Take data with more levels, and show the same with them. */
function take(more) {
  if (data.packedDraws) setDraws(more, data.packedDraws);
  const again = (selection) =>
    !selection ? null
    : selection === data.region ? wholeRegion(more)
    : selectionOf(more, selection.parts.map((part) => partOfKey(more, partKey(part))));
  Object.assign(state, { selection: again(state.selection), other: again(state.other) });
  state.level = more.levels.find(({ id }) => id === state.level.id);
  data = more;
  [field, tools, view].forEach((each) => each?.setData(data));
  [found, balance] = [{ of: null }, { of: null }];
  if (shown) render();
}

/** Show intervals too. */
function takeDraws(packed) {
  setDraws(data, packed);
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
  const address = addressOf(state, view?.camera);
  const [kept, now] = [withoutView(location.hash), withoutView(address)];
  if (kept !== now && kept !== "") history.pushState({ steps: (history.state?.steps ?? 0) + 1 }, "", address);
  else history.replaceState(history.state, "", address);
  byId("undo").disabled = !history.state?.steps;
}

/** An address without the part of the map that is seen, which is no step. */
const withoutView = (address) => address.replace(/&view=[^&]*/, "").replace(/^#(?!level=).*$/, "");

/** Show what an address says, and return whether it says anything of a map. */
async function follow(address) {
  if (needsMore(data, address)) {
    if (!(await readWhole(() => follow(address)))) return false;
    if (location.hash !== address) return false; // the reader has gone on
  }
  const said = readAddress(data, address);
  if (!said) return false;
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
  if (camera) view?.setCamera(camera);
  clearTimeout(waitingToKeep); // it is no step
  history.replaceState(history.state, "", addressOf(state, view?.camera));
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
  const compared = otherMap && differencesOf(data, otherMap, state, values, partners.values);
  const differences = Boolean(compared?.values);
  const dense = isDense() && !differences;
  byId("density").checked = dense;
  byId("density").disabled = differences;
  // Areas without a shape are on no map.
  const density = (value, at) => (level.area[at] > 0 ? value / level.area[at] : 0);
  const coloured = differences ? compared.values : dense ? values.map(density) : values;
  // Classes are made for the areas; an external zone, often larger than any, has one of theirs.
  const inside = coloured.filter((_, at) => !level.externalZones.has(at));
  const breaks = differences ? differenceBreaks(inside) : classBreaks(inside, dense ? 0.001 : 1);
  const drawable = flowsOf(data, side, selection, level, column);
  const { flows } = drawable;
  const known = {};
  const total = (place) => (l, c) => (known[place] ??= totalsOf(data, place, l, c));
  const { values: own, ...ways } = partners;
  const endsBy = ([name, lists]) => [name, (at) => data.draws.ends(lists[at])];
  const ends = Object.fromEntries(Object.entries(between || !own ? ways : { values: own }).map(endsBy));
  shown = { values, intervals: ends, partners, between, compared, differences, coloured, dense, breaks, drawable, totals: { home: total("home"), work: total("work") } };

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
  showOther(data, otherMap, compared, values, state, (at, event) => pick(level, at, event));
  showCommutes(found, unit, data);
  showLegend(state, shown, data.meta.drawn_around_centroids);
  showNoise(level);
  byId("density").closest("label").hidden = byId("density-rule").hidden = !canBeDense();
  const ofFlows = [side, column, level.id, selection?.key].join(" ");
  if (sliderOf !== ofFlows) {
    sliderOf = ofFlows;
    const many = selection ? FIRST_LINES.chosen : FIRST_LINES.all;
    const first = flows.jobs[Math.min(many, flows.length) - 1] ?? 1;
    byId("threshold").value = Math.ceil(toSlider(first, flows.jobs[0] ?? 1));
  }
  view?.showAreas(level, coloured, breaks, dense, differences);
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
  showLegend(state, shown, data.meta.drawn_around_centroids);
}

/** Show another map beside this one, once it has been read. */
async function layBeside(name, read) {
  try {
    otherMap = await read();
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
    await layBeside(file.name, async () => readOtherMap(await file.text()));
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
    await layBeside(title, () => fetchOtherMap(value));
  });
  byId("end-other").addEventListener("click", () => {
    otherMap = null;
    render();
    byId("chosen").focus();
  });
  const fileName = () => ["map", state.side, state.level.id].join("-");
  const downloads = {
    "save-csv": () => save(`${fileName()}.csv`, csvOf(areaRows(state, shown), sourceOf(data, state, otherMap)), "text/csv"),
    "save-flows": () => {
      const flows = [...shown.drawn];
      const table = csvOf(flowRows(state, flows, endsOfFlows(data, state, shown, flows)), sourceOf(data, state), FLOW_COLUMNS);
      save(`flows-${fileName()}.csv`, table, "text/csv");
    },
    "save-geojson": () =>
      save(`${fileName()}.geojson`, geojsonOf(state, shown, sourceOf(data, state, otherMap)), "application/geo+json"),
    "save-png": async () => save(`${fileName()}.png`, await pictureOf(view.map, sourceOf(data, state, otherMap), data.meta.attribution), "image/png"),
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
const more = needsMore(data, link); // comes after the first picture
if (more || !(await follow(link))) {
  render();
  if (state.level.noise) openLevel(state.level); // every level is
}
if (more) clearTimeout(waitingToKeep); // the link stays in the address until it is followed
if (view) byId("still").remove(); // before the areas are drawn: above the map it would be drawn in each frame, too
await view?.whenDrawn();
// For whoever waits for the page: milliseconds from its opening until it is drawn, and answers.
document.documentElement.dataset.ready = String(Math.round(performance.now()));
if (more) await follow(link);
if (intervals && !isBeside(byId("draws"))) openIntervals();
else if (intervals) {
  byId("open-intervals").textContent = say("show_intervals_of", { megabytes: inMegabytes(sizeOf(byId("draws"))) });
  byId("open-intervals").hidden = false;
}
