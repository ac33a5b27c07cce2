// What the reader sees, in the address after "#": a link shows it again, Back and Undo return to it.

import { EVERYBODY } from "./data.js";
import { MOST_ZOOM } from "./places.js";
import { UNITS } from "./scale.js";
import { partKey, partOfKey, selectionOf, unitsOf } from "./selection.js";

/** The words of a state. They are of the release, not of the page's colours. */
export function addressOf({ side, level, column, density, unit, selection, other, year, since }, camera) {
  const words = new URLSearchParams({ level: level.id, side, count: column, unit: unit.id });
  if (year !== null) words.set("year", year);
  if (since !== null) words.set("since", since);
  if (density !== null) words.set("density", density ? "1" : "0");
  for (const part of selection?.parts ?? []) words.append("chosen", partKey(part));
  for (const part of other?.parts ?? []) words.append("beside", partKey(part));
  if (camera) words.set("view", cameraWords(camera));
  return `#${words}`;
}

/** Whether an address says anything that data with fewer levels do not know. */
export function needsMore(data, address) {
  const words = new URLSearchParams(address.replace(/^#/, ""));
  const asked = [...words.getAll("chosen"), ...words.getAll("beside")].map((key) => key.slice(0, key.indexOf(":")));
  const later = data.meta.later.map(({ id }) => id);
  return later.length > 0 && (later.includes(words.get("level")) || asked.some((kind) => !data.levels.some(({ id }) => id === kind)));
}

/** The years that an address asks for: {year, since}, each null where it names none. */
export function yearsIn(address) {
  const words = new URLSearchParams(address.replace(/^#/, ""));
  const [year, since] = ["year", "since"].map((name) => (/^\d{1,4}$/.test(words.get(name) ?? "") ? Number(words.get(name)) : null));
  return { year, since };
}

/** What an address says, as far as this map knows it; null where it says nothing of a map. */
export function readAddress(data, address) {
  const words = new URLSearchParams(address.replace(/^#/, ""));
  const level = data.levels.find(({ id }) => id === words.get("level"));
  if (!level) return null;
  const [chosen, beside] = ["chosen", "beside"].map((name) => words.getAll(name).map((key) => partOfKey(data, key)));
  const counts = (part) => part !== null && unitsOf(data, part).length > 0;
  const [selection, other] = [chosen, beside].map((parts) => selectionOf(data, parts.filter(counts)));
  const side = words.get("side");
  const column = words.get("count");
  const density = new Map([["0", false], ["1", true]]).get(words.get("density")) ?? null;
  return {
    level,
    selection,
    other,
    missing: [...chosen, ...beside].filter((part) => !counts(part)).length,
    side: side === "home" || (side === "both" && selection) ? side : "work",
    column: Object.hasOwn(data.counts, column) ? column : EVERYBODY,
    density,
    unit: Object.values(UNITS).find(({ id }) => id === words.get("unit")) ?? UNITS.km,
    view: cameraOf(words.get("view") ?? ""),
  };
}

const MOST_NORTH = 85; // degrees: of the square world, which has no poles

/** The words of a camera: latitude, longitude, zoom, and which way is up where it is not north. */
const cameraWords = ({ center: [x, y], zoom, bearing }) =>
  [y.toFixed(4), x.toFixed(4), zoom.toFixed(2), ...(bearing ? [bearing.toFixed(0)] : [])].join(",");

/** The camera that words stand for; null where no map can be seen so. */
function cameraOf(words) {
  const parts = words.split(",");
  const [y, x, zoom, bearing = 0] = parts.map(Number);
  const good = parts.every((part) => part.trim()) && [y, x, zoom, bearing].every(Number.isFinite);
  if (!good || Math.abs(y) > MOST_NORTH || Math.abs(x) > 360 || zoom < 0 || zoom > MOST_ZOOM) return null;
  return { center: [x, y], zoom, bearing };
}
