// What the reader has chosen, and everything that follows from it.

const MOST_LINES = 1000; // more would hide the map
const FIRST_LINES = { all: 80, chosen: 40 }; // drawn before the reader moves the slider
const UNITS = { km: { id: "km", km: 1 }, mi: { id: "mi", km: 1.609344 } };

const data = await readData();

/** Detailed, but not too much to take in: the level, not of noise, that is nearest to a hundred areas of the region. */
function firstLevel() {
  const off = (level) => Math.abs(Math.log((level.codes.length - level.externalZones.size) / 100));
  const sound = data.levels.filter((level) => !level.noise);
  return (sound.length ? sound : data.levels).reduce((best, level) => (off(level) < off(best) ? level : best));
}

const state = { side: "work", level: firstLevel(), column: EVERYBODY, density: false, unit: UNITS.km, selection: null };
let shown = null; // what follows from the state
let found = { of: null }; // commutes of the selection; another level of the map does not change them
let sliderOf = null; // the flows that the slider was set for; from then on it is the reader's
const warned = new Set(); // levels of noise that the reader has chosen to see
let waiting = null; // the level that a warning is about
let themeChosen = false; // by the reader, not by the system

function choose(selection) {
  state.selection = selection;
  // Nobody works in an external zone: there is nothing to see but where its residents work.
  if (selection && isExternal(selection)) setSide("home");
  field.clear();
  render();
  if (selection && view) view.reveal(selection);
  // Where the button that was pressed is no longer there, keys go on from what it chose.
  if (document.activeElement === document.body) byId("chosen").focus();
}

function setSide(side) {
  state.side = side;
  document.querySelector(`input[name=side][value=${side}]`).checked = true;
}

function counted(box) {
  const words = countedWords(data, state.column);
  if (words) box.append(text("div", capital(words)));
  return box;
}

const tell = {
  area(unit) {
    const { level, column, side, selection } = state;
    const box = text("div", "");
    box.append(text("strong", areaName(level, unit)), text("div", areaCode(level, unit), "code"));
    if (selection) {
      const words = side === "work" ? "of the chosen workers live here" : "of the chosen residents work here";
      box.append(text("div", `${whole.format(shown.values[unit])} ${words}`));
    }
    const jobs = (place) => whole.format(shown.totals[place](level, column)[unit]);
    box.append(text("div", `${jobs("home")} workers live here`), text("div", `${jobs("work")} jobs are here`));
    return counted(box);
  },
  flow({ home, work, jobs }) {
    const { level, selection } = state;
    const end = (word, unit) => {
      const area = unit == null ? [selection.level, selection.unit] : [level, unit];
      const line = text("div", `${word} ${areaName(...area)}`);
      line.append(text("span", areaCode(...area), "code"));
      return line;
    };
    const box = text("div", "");
    box.append(text("strong", `${whole.format(jobs)} jobs`), end("from", home), end("to", work));
    return counted(box);
  },
};

const field = new SearchField(data, choose);
let view = null;
try {
  view = new MapView(data, (unit) => choose({ level: state.level, unit }), tell);
} catch {
  byId("no-map").hidden = false; // the panel works without
}

function render() {
  const { side, selection, level, column, unit } = state;
  const values = mapped(data, side, selection, level, column);
  const dense = state.density && level.area !== null;
  // Areas without a shape are on no map.
  const coloured = dense ? values.map((value, at) => (level.area[at] > 0 ? value / level.area[at] : 0)) : values;
  // Classes are made for the areas; an external zone, often larger than any, has one of theirs.
  const inside = coloured.filter((_, at) => !level.externalZones.has(at));
  const breaks = classBreaks(inside, dense ? 0.001 : 1);
  const drawable = flowsOf(data, side, selection, level, column);
  const { flows } = drawable;
  const known = {};
  const total = (place) => (l, c) => (known[place] ??= totalsOf(data, place, l, c));
  shown = { values, coloured, dense, breaks, drawable, totals: { home: total("home"), work: total("work") } };

  const of = [side, column, unit.id, selection?.level.id, selection?.unit].join(" ");
  if (found.of !== of) found = { of, ...commutes(data, side, selection, column, unit.km) };
  showCounted(countedWords(data, column));
  showSides(state);
  showSummary(state, found, unit, data);
  showTop(state, values, found.jobs, (at) => choose({ level, unit: at }));
  showExternalZones(found, data, choose);
  showCommutes(found, unit, data);
  showLegend(state, shown, data.meta.drawn_around_centroids);
  showNoise(level);
  byId("density").closest("label").hidden = level.area === null;
  const ofFlows = [side, column, level.id, selection?.level.id, selection?.unit].join(" ");
  if (sliderOf !== ofFlows) {
    sliderOf = ofFlows;
    const many = selection ? FIRST_LINES.chosen : FIRST_LINES.all;
    const first = flows[Math.min(many, flows.length) - 1]?.jobs ?? 1;
    byId("threshold").value = Math.ceil(toSlider(first, flows[0]?.jobs ?? 1));
  }
  view?.showAreas(level, coloured, breaks, dense);
  view?.showSelection(selection);
  view?.setUnit(unit.id);
  renderFlows();
}

function renderFlows() {
  const { flows } = shown.drawable;
  const largest = flows[0]?.jobs ?? 1;
  const threshold = fromSlider(byId("threshold").value, largest);
  const chosen = flows.filter((flow) => flow.jobs >= threshold);
  const drawn = chosen.slice(0, MOST_LINES);
  byId("threshold").setAttribute("aria-valuetext", `at least ${threshold} jobs`);
  showFlowWords(state, shown.drawable, drawn, threshold, chosen.length - drawn.length);
  showFlowLegend(state, drawn, largest);
  view?.showFlows(drawn, state.selection, state.level, largest);
}

/** Show a level; of one that is noise say so first, once. */
function openLevel(level) {
  if (level.noise && !warned.has(level)) {
    fillWarning(data, level);
    waiting = level;
    byId("warning").showModal();
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

function listen() {
  document.querySelectorAll("input[name=side]").forEach((radio) =>
    radio.addEventListener("change", () => {
      state.side = radio.value;
      render();
    }),
  );
  byId("level").addEventListener("change", (event) => {
    const level = data.levels.find(({ id }) => id === event.target.value);
    event.target.value = state.level.id; // until the reader has seen what there is to say of it
    openLevel(level);
  });
  byId("warning-show").addEventListener("click", () => {
    warned.add(waiting);
    byId("warning").close();
    openLevel(waiting);
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
  const theme = () => document.documentElement.dataset.theme;
  byId("theme").addEventListener("click", () => {
    themeChosen = true;
    setTheme(theme() === "dark" ? "light" : "dark");
  });
  // Paper is white. These come before the map's own listeners, which draw it for the paper.
  let onScreen = null;
  window.addEventListener("beforeprint", () => {
    onScreen = theme();
    setTheme("light");
  });
  window.addEventListener("afterprint", () => setTheme(onScreen));
  byId("print").addEventListener("click", () => window.print());
  byId("fold").addEventListener("click", () => {
    const folded = document.body.classList.toggle("folded");
    byId("fold").setAttribute("aria-expanded", !folded);
    byId("fold").textContent = folded ? "Show panel" : "Hide panel";
    view?.map.resize();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.selection && !byId("warning").open) choose(null);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => {
    if (!themeChosen) setTheme(event.matches ? "dark" : "light");
  });
}

fillChoices(data);
byId("legend").open = window.innerWidth > 800; // on a small screen it would hide the map
byId("level").value = state.level.id;
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
listen();
await view?.ready;
render();
if (state.level.noise) openLevel(state.level); // every level is
// For whoever waits for the page: milliseconds from its opening until it answers.
document.documentElement.dataset.ready = Math.round(performance.now());
