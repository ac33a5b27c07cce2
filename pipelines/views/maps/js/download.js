// What is seen, as files: tables, shapes and a picture. Each says that it is synthetic, and of which release.

import { byId } from "./dom.js";
import { added, flowIntervals } from "./draws.js";
import { pointFeature } from "./mapview.js";
import { say } from "./phrases.js";
import { endName, isElsewhere, standingFor } from "./places.js";
import { colour } from "./scale.js";
import { isArea, partKey, partName } from "./selection.js";

/** What every file says of itself. */
export function sourceOf(data, { selection, column }, other = null) {
  const { name, version, certificate_sha256 } = data.meta.release;
  return {
    synthetic: say("note"),
    release: name,
    version,
    certificate_sha256,
    chosen: selection?.parts.map((part) => `${partName(part)}${isArea(part) ? ` (${partKey(part)})` : ""}`).join("; ") ?? "",
    counted: data.meanings[column],
    ...(other ? { other_map: `${other.name}, ${other.meta.release.version}` } : {}),
  };
}

/** Numbers by area as they are seen: {name of a column: its values by unit}. */
function columnsOf({ selection, side }, { values, between, compared }) {
  const beside = compared?.values ? { in_other_map: compared.others, difference: compared.values } : {};
  if (between) return { come_from_here: between.come, go_to_here: between.leave, ...beside };
  if (selection) return { [side === "work" ? "live_here" : "work_here"]: values, ...beside };
  return { [side === "work" ? "jobs" : "residents"]: values, ...beside };
}

/** The ends of intervals by area, where they are known: {name of a column: its values by unit}. */
function endsOf({ intervals, compared }, units) {
  const names = { values: "", come: "come_from_here_", leave: "go_to_here_", there: "in_other_map_", difference: "difference_" };
  const beside = (at) => (unit) => compared.intervals.of(unit)[at];
  const differences = compared?.intervals?.of ? { there: beside(1), difference: beside(2) } : {};
  const columns = Object.entries({ ...intervals, ...differences }).flatMap(([which, ends]) => {
    const all = units.map(ends);
    return [0, 1].map((at) => [`${names[which]}${at ? "high" : "low"}`, all.map((each) => each[at])]);
  });
  return Object.fromEntries(columns);
}

/** A row for each area of the level: code, name, numbers, and their intervals where they have any. */
export function areaRows(state, shown) {
  const { level } = state;
  const columns = Object.entries(columnsOf(state, shown));
  const ends = Object.entries(endsOf(shown, Array.from(level.codes.keys())));
  return Array.from(level.codes, (_, unit) => {
    const zone = level.externalZones.get(unit);
    return {
      level: zone ? say("external_zone") : level.id,
      code: zone?.code ?? level.codes[unit],
      name: zone?.name ?? level.names[unit] ?? "",
      ...Object.fromEntries([...columns, ...ends].map(([name, values]) => [name, values[unit]])),
    };
  });
}

export const FLOW_COLUMNS = ["home_code", "home_name", "work_code", "work_name", "jobs", "low", "high"];

/** Intervals of flows, in their order: between units of the level, or of which one end is the selection; null where unknown. */
export function endsOfFlows(data, { level, selection, column }, { partners }, flows) {
  if (!selection) return flowIntervals(data, level, column, flows);
  const { values, come = values, leave = values } = partners;
  const { over } = selection.cover(level);
  const ends = (lists, unit) => {
    const others = standingFor(level, unit).filter((each) => !over[each]);
    return data.draws.ends(others.map((each) => lists[each]).reduce(added));
  };
  return come ? flows.map(({ home, work }) => (work === null ? ends(come, home) : ends(leave, work))) : null;
}

/** A row for each line that is drawn; without its interval where that is not known. */
export function flowRows({ level, selection }, flows, ends) {
  const codesOf = (unit) => standingFor(level, unit).map((each) => level.externalZones.get(each)?.code ?? level.codes[each]).join(" ");
  const end = (word, unit) =>
    unit === null
      ? { [`${word}_code`]: "", [`${word}_name`]: say("chosen_end", { parts: selection.parts.map(partName).join("; ") }) }
      : {
          [`${word}_code`]: codesOf(unit),
          [`${word}_name`]: isElsewhere(level, unit) ? endName(level, unit) : (level.externalZones.get(unit)?.name ?? level.names[unit] ?? ""),
        };
  return flows.map(({ home, work, jobs }, at) => {
    const [low, high] = ends?.[at] ?? ["", ""];
    return { ...end("home", home), ...end("work", work), jobs, low, high };
  });
}

/** Text that spreadsheets would take for a formula, such as the name of a file or of another map, behind an apostrophe. */
const noFormula = (value) => (typeof value === "string" && /^\s*[=+\-@]/.test(value) ? `'${value}` : value);

/** CSV as RFC 4180 has it; the columns of `source` come last and are the same in every row. */
export function csvOf(rows, source, columns = Object.keys(rows[0])) {
  const quoted = (value) => {
    const words = String(noFormula(value));
    return /[",\r\n]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  const names = [...columns, ...Object.keys(source)];
  const tail = Object.values(source).map(quoted).join(",");
  const lines = rows.map((row) => `${Object.values(row).map(quoted).join(",")},${tail}`);
  return [names.join(","), ...lines, ""].join("\r\n");
}

/** The areas of the level with their numbers, those without a shape as points; what all share is in `odsynth`. */
export function geojsonOf(state, shown, source) {
  const { level } = state;
  const shapes = new Map(level.shapes?.features.map(({ id, geometry }) => [id, geometry]));
  const features = areaRows(state, shown).flatMap((properties, id) => {
    if (level.externalZones.has(id)) return []; // which are not where the map draws them
    return [{ type: "Feature", id, properties, geometry: shapes.get(id) ?? pointFeature(level, id).geometry }];
  });
  return JSON.stringify({ type: "FeatureCollection", odsynth: source, features });
}

/** The map as it is drawn, with its legend above and what it is of below. */
export function pictureOf(map, source, attribution) {
  map.redraw();
  const drawn = map.getCanvas();
  const scale = drawn.width / map.getContainer().clientWidth;
  const entries = [...byId("legend-classes").querySelectorAll("li")];
  const [line, margin] = [20 * scale, 10 * scale];
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  canvas.width = drawn.width;
  const font = `${13 * scale}px ${getComputedStyle(document.body).fontFamily}`;
  context.font = font;
  // Words and swatches go on in the next line where there is no room.
  const pieces = entries.map((item) => ({ words: item.textContent, fill: item.querySelector("i").style.backgroundColor }));
  const titles = [source.release, source.chosen, byId("legend-title").textContent, source.counted, source.other_map].filter(Boolean);
  const notes = [source.synthetic, source.release, source.version, `certificate SHA-256 ${source.certificate_sha256}`];
  if (attribution) notes.push(attribution);
  const rows = [[]];
  const plain = (lines) => lines.map((words) => ({ words, fill: null }));
  for (const group of [plain(titles), pieces, plain(notes)]) {
    let x = margin;
    for (const piece of group) {
      const width = context.measureText(piece.words).width + (piece.fill ? 22 : 0) * scale;
      if (x + width > canvas.width - margin && x > margin) {
        rows.push([]);
        x = margin;
      }
      rows.at(-1).push({ ...piece, x });
      x += width + 16 * scale;
    }
    rows.push([]);
  }
  rows.pop();
  const below = rows.findIndex((row) => row[0].words === source.synthetic);
  const top = below * line + margin;
  canvas.height = drawn.height + rows.length * line + 2 * margin;
  Object.assign(context, { font, textBaseline: "middle", fillStyle: colour("paper") });
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = colour("water");
  context.fillRect(0, top, drawn.width, drawn.height);
  context.drawImage(drawn, 0, top);
  rows.forEach((row, at) => {
    const y = margin / 2 + (at + 0.5) * line + (at < below ? 0 : drawn.height + margin / 2);
    for (const { words, fill, x } of row) {
      if (fill) {
        context.fillStyle = fill;
        context.fillRect(x, y - 6 * scale, 16 * scale, 12 * scale);
      }
      context.fillStyle = colour("ink");
      context.fillText(words, x + (fill ? 22 * scale : 0), y);
    }
  });
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

/** The name of a file that is saved of a release: true data have names like `what`. */
export const keptName = ({ name }, what) =>
  `${name.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-|-$/g, "")}_synthetic_${what}`;

/** Have the browser save a file that the page made. */
export function save(name, content, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([content], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
