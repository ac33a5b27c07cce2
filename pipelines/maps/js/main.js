// What the reader has chosen, and everything that follows from it.

const MOST_LINES = 1000; // more would hide the map
const FIRST_LINES = { all: 80, chosen: 40 }; // drawn before the reader moves the slider
const UNITS = { km: { id: "km", km: 1 }, mi: { id: "mi", km: 1.609344 } };

const data = await readData();

/** Detailed, but not too much to take in: the level that is nearest to a hundred areas. */
function firstLevel() {
  const off = (level) => Math.abs(Math.log(level.codes.length / 100));
  return data.levels.reduce((best, level) => (off(level) < off(best) ? level : best));
}

const state = { side: "work", level: firstLevel(), column: "S000", unit: UNITS.km, selection: null };
let shown = null; // what follows from the state: {values, breaks, flows, totals}
let found = { of: null }; // commutes of the selection; another level of the map does not change them

function choose(selection) {
  state.selection = selection;
  byId("search").value = "";
  render();
  if (selection && view) view.reveal(selection);
}

const tell = {
  area(unit) {
    const { level, column, side, selection } = state;
    const box = text("div", "");
    box.append(text("strong", areaName(level, unit)));
    if (selection) {
      const words = side === "work" ? "of the chosen workers live here" : "of the chosen residents work here";
      box.append(text("div", `${whole.format(shown.values[unit])} ${words}`));
    }
    const jobs = (place) => whole.format(shown.totals[place](level, column)[unit]);
    box.append(text("div", `${jobs("home")} workers live here`), text("div", `${jobs("work")} jobs are here`));
    return box;
  },
  flow({ home, work, jobs }) {
    const { level, selection } = state;
    const end = (unit) => (unit == null ? areaName(selection.level, selection.unit) : areaName(level, unit));
    const box = text("div", "");
    box.append(text("strong", `${whole.format(jobs)} jobs`));
    box.append(text("div", `from ${end(home)}`), text("div", `to ${end(work)}`));
    return box;
  },
};

let view = null;
try {
  view = new MapView(data, (unit) => choose({ level: state.level, unit }), tell);
} catch {
  byId("no-map").hidden = false; // the panel works without
}

function render() {
  const { side, selection, level, column, unit } = state;
  const values = mapped(data, side, selection, level, column);
  const inside = values.filter((_, at) => !level.outside.has(at));
  const breaks = classBreaks(inside);
  const flows = flowsOf(data, side, selection, level, column);
  const known = {};
  const total = (place) => (l, c) => (known[place] ??= totalsOf(data, place, l, c));
  shown = { values, breaks, flows, totals: { home: total("home"), work: total("work") } };

  const of = [side, column, unit.id, selection?.level.id, selection?.unit].join(" ");
  if (found.of !== of) found = { of, ...commutes(data, side, selection, column, unit.km) };
  showSummary(state, found, unit);
  showTop(state, values, found.jobs, (at) => choose({ level, unit: at }));
  showCommutes(found, unit);
  showLegend(state, values, breaks, data.meta.drawn_around_centroids);
  const largest = flows[0]?.jobs ?? 1;
  const many = selection ? FIRST_LINES.chosen : FIRST_LINES.all;
  const first = flows[Math.min(many, flows.length) - 1]?.jobs ?? 1;
  byId("threshold").value = Math.ceil(toSlider(first, largest));
  view?.showAreas(level, values, breaks);
  view?.showSelection(selection);
  view?.setUnit(unit.id);
  renderFlows();
}

function renderFlows() {
  const { flows } = shown;
  const largest = flows[0]?.jobs ?? 1;
  const threshold = fromSlider(byId("threshold").value, largest);
  const drawn = flows.filter((flow) => flow.jobs >= threshold).slice(0, MOST_LINES);
  byId("threshold").setAttribute("aria-valuetext", `at least ${threshold} jobs`);
  showFlowWords(drawn, flows, threshold);
  view?.showFlows(drawn, state.selection, state.level, largest);
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").setAttribute("aria-pressed", theme === "dark");
  if (!shown) return;
  view?.paint();
  showLegend(state, shown.values, shown.breaks, data.meta.drawn_around_centroids);
}

function listen() {
  document.querySelectorAll("input[name=side]").forEach((radio) =>
    radio.addEventListener("change", () => {
      state.side = radio.value;
      render();
    }),
  );
  byId("level").addEventListener("change", (event) => {
    state.level = data.levels.find((level) => level.id === event.target.value);
    render();
  });
  byId("count").addEventListener("change", (event) => {
    state.column = event.target.value;
    render();
  });
  byId("unit").addEventListener("change", (event) => {
    state.unit = UNITS[event.target.value];
    render();
  });
  byId("threshold").addEventListener("input", renderFlows);
  byId("clear").addEventListener("click", () => choose(null));
  byId("theme").addEventListener("click", () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  );
  byId("print").addEventListener("click", () => window.print());
  byId("fold").addEventListener("click", () => {
    const folded = document.body.classList.toggle("folded");
    byId("fold").setAttribute("aria-expanded", !folded);
    byId("fold").textContent = folded ? "Show panel" : "Hide panel";
    view?.map.resize();
  });
  byId("search").addEventListener("input", (event) => {
    const areas = search(data, event.target.value);
    byId("not-found").hidden = areas.length > 0 || !event.target.value.trim();
    fillSuggestions(areas);
  });
  byId("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const [best] = search(data, byId("search").value, 1);
    byId("not-found").hidden = Boolean(best);
    if (best) choose(best);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && state.selection) choose(null);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) =>
    setTheme(event.matches ? "dark" : "light"),
  );
}

fillChoices(data);
byId("legend").open = window.innerWidth > 800; // on a small screen it would hide the map
byId("level").value = state.level.id;
setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
listen();
await view?.ready;
render();
// For whoever waits for the page: milliseconds from its opening until it answers.
document.documentElement.dataset.ready = Math.round(performance.now());
