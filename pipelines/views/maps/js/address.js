// What the reader sees, in the address after "#": a link shows it again, Back and Undo return to it.

import { EVERYBODY } from "./data.js";
import { UNITS } from "./scale.js";
import { partKey, partOfKey, selectionOf } from "./selection.js";

/** The words of a state. They are of the release, not of the page's colours. */
export function addressOf({ side, level, column, density, unit, selection, other }, camera) {
  const words = new URLSearchParams({ level: level.id, side, count: column, unit: unit.id });
  if (density !== null) words.set("density", density ? "1" : "0");
  for (const part of selection?.parts ?? []) words.append("chosen", partKey(part));
  for (const part of other?.parts ?? []) words.append("beside", partKey(part));
  if (camera) words.set("view", camera);
  return `#${words}`;
}

/** Whether an address says anything that data with fewer levels do not know. */
export function needsMore(data, address) {
  const words = new URLSearchParams(address.replace(/^#/, ""));
  const asked = [...words.getAll("chosen"), ...words.getAll("beside")].map((key) => key.slice(0, key.indexOf(":")));
  const later = data.meta.later.map(({ id }) => id);
  return later.length > 0 && (later.includes(words.get("level")) || asked.some((kind) => !data.levels.some(({ id }) => id === kind)));
}

/** What an address says, as far as this map knows it; null where it says nothing of a map. */
export function readAddress(data, address) {
  const words = new URLSearchParams(address.replace(/^#/, ""));
  const level = data.levels.find(({ id }) => id === words.get("level"));
  if (!level) return null;
  const [chosen, beside] = ["chosen", "beside"].map((name) => words.getAll(name).map((key) => partOfKey(data, key)));
  const [selection, other] = [chosen, beside].map((parts) => selectionOf(data, parts.filter(Boolean)));
  const side = words.get("side");
  const column = words.get("count");
  const density = { 0: false, 1: true }[words.get("density")] ?? null;
  return {
    level,
    selection,
    other,
    missing: [...chosen, ...beside].filter((part) => !part).length,
    side: side === "home" || (side === "both" && selection) ? side : "work",
    column: column in data.counts ? column : EVERYBODY,
    density,
    unit: UNITS[words.get("unit")] ?? UNITS.km,
    view: words.get("view"),
  };
}
