// The panel beside the map: what is chosen, in numbers. Its tables say what the map shows to whoever cannot see it.

const TOP = 10;
const EVERYBODY = "S000"; // the column that counts all jobs

/** Fill the lists from which a reader chooses. */
function fillChoices(data) {
  const levels = data.levels.map((level) => new Option(capital(level.one) + (level.noise ? " (noise)" : ""), level.id));
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
      `Numbers are of whole ${data.finest.many}.`;
  }
}

/** What a reader has to know of a level whose flows are noise. */
function noiseWords({ many, noise }) {
  const percent = (part) => `${Math.round(100 * part)} in 100`;
  return (
    `Of the jobs in flows between ${many}, ${percent(noise.loss)} are expected to be counted where they are not ` +
    `in truth; by public data alone it would be ${percent(noise.public_model)}.`
  );
}

function fillWarning(data, level) {
  const others = data.levels.filter(({ noise }) => !noise).map(({ many }) => many);
  byId("warning-title").textContent = `Flows between ${level.many} are noise`;
  byId("warning-words").textContent =
    noiseWords(level) + (others.length ? ` Levels of this map that are not noise: ${others.join(", ")}.` : "");
}

/** While a level is noise, say so beside its numbers and in the legend. */
function showNoise(level) {
  byId("noise").hidden = byId("legend-noise").hidden = !level.noise;
  byId("noise").textContent = level.noise ? `Flows between ${level.many} are noise. ${noiseWords(level)}` : "";
  byId("legend").classList.toggle("of-noise", Boolean(level.noise));
}

/** Who is counted, in words; nothing where it is everybody. */
const countedWords = (data, column) => (column === EVERYBODY ? "" : `only: ${data.meanings[column]}`);

/** Say beside every number who is counted: on paper there is no list to look at. */
function showCounted(words) {
  document.querySelectorAll(".counted").forEach((element) => {
    element.textContent = capital(words);
    element.hidden = !words;
  });
}

function showSummary(state, found, unit) {
  const { side, selection } = state;
  const kind = side === "work" ? "Workplace" : "Residence";
  byId("chosen").textContent = selection ? areaName(selection.level, selection.unit) : "The whole region";
  byId("chosen-kind").textContent = selection ? kind : "";
  byId("chosen-code").textContent = selection ? areaCode(selection.level, selection.unit) : "";
  byId("clear").hidden = !selection;
  byId("hint").hidden = Boolean(selection);
  byId("hint").textContent =
    side === "work"
      ? "Choose a workplace on the map, in the table or by search, and see where its workers live."
      : "Choose a residence on the map, in the table or by search, and see where its residents work.";
  const many = side === "work" ? "synthetic workers with a job here" : "synthetic workers who live here";
  byId("jobs-words").textContent = selection ? many : "synthetic workers";
  byId("jobs").textContent = whole.format(found.jobs);
  const length = (km) => (Number.isNaN(km) ? "–" : `${oneDecimal.format(km / unit.km)} ${unit.id}`);
  byId("mean").textContent = length(found.mean);
  byId("median").textContent = length(found.median);
}

/** From where to where the true number of a row of the table may be, as text; "" where that is not known. */
function intervalWords({ side, selection, level, column }, homes, unit) {
  const intervals = level.intervals;
  if (!intervals || column !== EVERYBODY || (selection ? selection.level !== level : !homes)) return "";
  const words = ({ low, high }, at) => `${whole.format(low[at])} to ${whole.format(high[at])}`;
  if (!selection) return words(intervals.residents, unit);
  const [work, home] = side === "work" ? [selection.unit, unit] : [unit, selection.unit];
  const row = intervals.home.subarray(intervals.first[work], intervals.first[work + 1]).indexOf(home);
  return row < 0 ? "" : words(intervals, intervals.first[work] + row);
}

/** The strongest partners, or without a selection the largest areas; each can be chosen. */
function showTop(state, values, jobs, choose) {
  const { side, selection, level } = state;
  const homes = selection ? side === "work" : side === "home";
  byId("top-title").textContent = selection
    ? homes ? "Where its workers live" : "Where its residents work"
    : homes ? "Where most people live" : "Where most people work";
  const units = Array.from(values.keys()).filter((unit) => values[unit] > 0 && !level.externalZones.has(unit));
  const shown = units.sort((a, b) => values[b] - values[a]).slice(0, TOP);
  const beyond = [...level.externalZones].reduce((total, unit) => total + values[unit], 0);
  byId("top-count").textContent =
    (units.length > shown.length
      ? `The ${shown.length} largest of ${whole.format(units.length)} ${level.many}.`
      : `All ${whole.format(units.length)} ${units.length === 1 ? level.one : level.many} with any.`) +
    // Nobody works in an external zone.
    (beyond > 0 ? ` ${whole.format(beyond)} (${share(beyond, jobs)}) live in external zones.` : "");
  const intervals = new Map(shown.map((unit) => [unit, intervalWords(state, homes, unit)]));
  const bounded = [...intervals.values()].some(Boolean);
  const more = (words) => (bounded ? [words] : []);
  if (bounded) byId("top-count").textContent += " Interval: 90 % of what the true number may be (docs/intervals.md).";
  byId("top").replaceChildren(
    tableRow("th", [capital(level.one), homes ? "Residents" : "Jobs", ...more("Interval"), "Share"]),
    ...shown.map((unit) => {
      const cells = ["", whole.format(values[unit]), ...more(intervals.get(unit)), share(values[unit], jobs)];
      const row = tableRow("td", cells);
      const code = readable(level, level.codes[unit]);
      const button = text("button", level.names[unit] ?? code);
      button.type = "button";
      button.dataset.code = level.codes[unit];
      button.title = `Choose ${areaName(level, unit)}`;
      button.addEventListener("click", () => choose(unit));
      row.firstChild.append(button);
      if (level.names[unit]) row.firstChild.append(text("span", code, "code"));
      row.style.setProperty("--part", `${(100 * values[unit]) / values[shown[0]]}%`);
      return row;
    }),
  );
}

function showCommutes(found, unit) {
  drawRose(byId("rose"), found);
  drawDistances(byId("distances"), found, unit.id);
  fillRoseTable(byId("rose-table"), found, unit.id);
  byId("no-direction").textContent =
    found.noDirection > 0
      ? `${whole.format(found.noDirection)} of the jobs are in the worker's own area: without distance or direction.`
      : "";
  const beyond = [...found.externalZones].sort((a, b) => b[1] - a[1]);
  byId("external-zones").hidden = beyond.length === 0;
  byId("external-zones-table").replaceChildren(
    tableRow("th", ["Area", "Residents", "Share"]),
    ...beyond.map(([name, jobs]) => tableRow("td", [name, whole.format(jobs), share(jobs, found.jobs)])),
  );
}

function showFlowWords(shown, flows, threshold) {
  const sum = (list) => list.reduce((total, flow) => total + flow.jobs, 0);
  byId("threshold-words").textContent =
    `${whole.format(threshold)} ${threshold === 1 ? "job" : "jobs"} or more`;
  byId("flow-count").textContent = flows.length
    ? `${whole.format(shown.length)} of ${whole.format(flows.length)} flows drawn, ` +
      `with ${share(sum(shown), sum(flows))} of the jobs between areas of the map`
    : "No flows between areas";
}

function legendEntry(label, style, className = "") {
  const item = text("li", label);
  const swatch = text("i", "", className);
  Object.assign(swatch.style, style);
  item.prepend(swatch);
  return item;
}

/** Which way the lines go, and how wide the largest and the smallest are. */
function showFlowLegend({ side, selection }, drawn, largest) {
  const jobs = [...new Set([drawn[0]?.jobs, drawn.at(-1)?.jobs])].filter(Boolean);
  const lines = jobs.map((n) => {
    const height = `${lineWidth(n / largest)}px`;
    return legendEntry(`${whole.format(n)} ${n === 1 ? "job" : "jobs"}`, { height }, "line");
  });
  const arrow = legendEntry("from home to work", {}, "arrow");
  const star = text("li", side === "work" ? "to the chosen workplace" : "from the chosen residence");
  byId("legend-flows").replaceChildren(selection ? star : arrow, ...lines);
  byId("legend-flows").hidden = !jobs.length;
}

function showLegend(state, { coloured, dense, breaks }, drawnAround) {
  const { side, selection, level } = state;
  const homes = selection ? side === "work" : side === "home";
  byId("legend-title").textContent = `${homes ? "Residents" : "Jobs"}${dense ? " per km²" : ""} by ${level.one}`;
  const words = (dense ? densityWords : classWords)(breaks, largestInside(level, coloured));
  const entry = (fill, label) => legendEntry(label, { background: fill });
  const colours = rampColours(words.length);
  const entries = words.map((label, i) => entry(colours[i], label));
  byId("legend-classes").replaceChildren(...entries.reverse(), entry(colour("land"), "none"));
  byId("legend-circles").hidden = Boolean(level.shapes);
  byId("legend-chosen").hidden = !selection;
  byId("legend-cells").hidden = !(level.shapes && drawnAround);
}
