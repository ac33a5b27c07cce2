// Two choices side by side, and this release beside another: the data of another map's file.

/** What is said of a choice, or of the whole region: numbers, and from where to where the true ones may be. */
function factsOf(data, selection, column) {
  const whole_ = selection ?? wholeRegion(data);
  const balance = balanceOf(data, whole_, column);
  const [atWork, atHome] = ["work", "home"].map((side) => commutes(data, side, whole_, column, 1));
  const ends = balanceIntervals(data, whole_, column);
  return {
    name: selection ? selectionName(selection, data.finest) : "The whole region",
    noise: isNoise(whole_),
    rows: [
      ["Work here", balance.come + balance.stay],
      ["· come from elsewhere", balance.come, ends.come, true],
      ["· live here too", balance.stay, ends.stay, true],
      ["Live here", balance.stay + balance.leave, ends.live],
      ["· leave for work elsewhere", balance.leave, ends.leave, true],
      ["Mean commute of those who work here", atWork.mean, meanInterval(data, "work", whole_, column)?.ends, false, "length"],
      ["Median", atWork.median, null, false, "length"],
      ["Mean commute of those who live here", atHome.mean, meanInterval(data, "home", whole_, column)?.ends, false, "length"],
      ["Median", atHome.median, null, false, "length"],
    ],
    profiles: Object.fromEntries(["work", "home"].map((side) => [side, sumsOf(data, side, whole_)])),
    shares: { work: {}, home: shareIntervals(data, "home", whole_) },
  };
}

/** All areas of the region, without external zones. */
function wholeRegion(data) {
  const level = data.levels[0];
  const units = Array.from(level.codes.keys()).filter((unit) => !level.externalZones.has(unit));
  data.region ??= selectionOf(data, units.map((unit) => ({ kind: "area", level, unit })));
  return data.region;
}

/** Two choices side by side. */
function showComparison(data, { side, column, selection, other, unit }) {
  byId("comparison").hidden = !other;
  if (!other) return;
  const facts = [selection, other].map((each) => factsOf(data, each, column));
  const length = (km) => (Number.isNaN(km) ? "–" : `${oneDecimal.format(km / unit.km)} ${unit.id}`);
  const cell = ([, value, ends, flow, kind], { noise }) => {
    const words = kind === "length" ? length : whole.format;
    const made = text("td", words(value), flow && noise ? "muted" : "");
    const number = kind === "length" ? (km) => oneDecimal.format(km / unit.km) : words;
    if (ends) made.append(text("span", `${number(ends[0])} to ${words(ends[1])}`, "code"));
    return made;
  };
  const rows = facts[0].rows.map((row, at) => {
    const made = tableRow("td", [row[0]]);
    made.append(...facts.map((each) => cell(each.rows[at], each)));
    return made;
  });
  const who = side === "home" ? "home" : "work";
  const profile = data.meta.counts
    .filter(({ attribute }) => attribute)
    .flatMap(({ columns }) => columns)
    .map(({ id, words }) => {
      const made = tableRow("td", [capital(words), ...facts.map(({ profiles }) => share(profiles[who][id], profiles[who][EVERYBODY]))]);
      facts.forEach(({ shares }, at) => {
        const ends = shares[who][id]?.map((end) => oneDecimal.format(100 * end));
        if (ends) made.children[1 + at].append(text("span", ends.join(" to "), "code"));
      });
      return made;
    });
  byId("comparison-table").replaceChildren(tableRow("th", ["Number", ...facts.map(({ name }) => name)]), ...rows, ...profile);
  const bounded = facts.some(({ rows: all }) => all.some(([, , ends]) => ends));
  byId("comparison-words").textContent =
    `Shares are of all workers who ${who === "home" ? "live" : "work"} here.` +
    (bounded ? " Below some numbers: 90 % of the posterior draws of the true number are between these; of means, if commutes between two areas are as long as the released ones." : "") +
    (facts.some(({ noise }) => noise) ? " Grey numbers are of flows that are expected to be noise." : "");
}

/** The data of another map, from the text of its file. */
async function readOtherMap(file) {
  const page = new DOMParser().parseFromString(await file.text(), "text/html"); // which runs nothing of it
  try {
    const other = await readData(page, true);
    return { ...other, name: other.meta.release?.name ?? page.title, file: file.name };
  } catch {
    throw new FileError("it is no map that this version of odsynth wrote, or not a whole one.");
  }
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
 * areas that are not here}, or {problem: words}.
 */
function differencesOf(data, other, { side, selection, level, column }, values) {
  const theirs = other.levels.find(({ id }) => id === level.id);
  if (!theirs) return { problem: `It has no level “${level.one}”.` };
  if (!(column in other.counts)) return { problem: "It does not count these jobs." };
  const same = selection && sameChoice(data, other, selection);
  if (selection && !same) return { problem: "It does not have all of the chosen areas." };
  const found = mapped(other, side, same, theirs, column);
  const number = new Map(level.codes.map((code, unit) => [code, unit]));
  const others = new Float64Array(level.codes.length);
  let beyond = 0;
  found.forEach((jobs, unit) => {
    const here = number.get(theirs.codes[unit]);
    if (here === undefined) beyond += jobs;
    else others[here] += jobs;
  });
  const sum = (list) => list.reduce((a, b) => a + b, 0);
  return { values: values.map((jobs, unit) => jobs - others[unit]), others, beyond, sums: [sum(values), sum(found)] };
}

const signed = (value) => (value > 0 ? "+" : value < 0 ? "−" : "") + whole.format(Math.abs(value));

/** This release beside another: totals, and where they differ most. */
function showOther(other, differences, values, state, choose) {
  byId("other").hidden = !other;
  if (!other) return;
  const { level } = state;
  byId("other-title").textContent = `Beside ${other.name}`;
  const { problem, others, beyond, sums, values: by } = differences;
  byId("other-table").hidden = Boolean(problem);
  byId("other-words").textContent = problem ?? otherWords(sums, beyond, level);
  if (problem) return;
  const units = Array.from(by.keys()).filter((unit) => by[unit] !== 0 && !level.externalZones.has(unit));
  const shown = units.sort((a, b) => Math.abs(by[b]) - Math.abs(by[a])).slice(0, TOP);
  byId("other-table").classList.toggle("of-noise", Boolean(level.noise && state.selection));
  byId("other-table").replaceChildren(
    tableRow("th", [capital(level.one), "Here", "There", "Difference"]),
    ...shown.map((unit) => {
      const row = tableRow("td", ["", whole.format(values[unit]), whole.format(others[unit]), signed(by[unit])]);
      row.firstChild.append(areaButton(level, unit, areaName(level, unit), (event) => choose(unit, event)));
      return row;
    }),
  );
}

function otherWords([here, there], beyond, level) {
  const gone = beyond ? ` ${whole.format(beyond)} there are in ${level.many} that are not in this map.` : "";
  return (
    `Counted as the map is coloured: ${whole.format(here)} here, ${whole.format(there)} there (${signed(here - there)}).${gone} ` +
    `The ${level.many} that differ most are below; the map shows all. Both are synthetic: a difference of a few jobs may be noise.`
  );
}
