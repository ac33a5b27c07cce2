// What the reader has chosen: one area or several, of any level, of layers that cut across the levels, or inside an
// outline. Whatever it is made of, it counts areas of the finest level.
//
// A part is one of {kind: "area", level, unit}, {kind: "layer", level: a layer, unit}, {kind: "outline", rings},
// {kind: "circle", at: [longitude, latitude], km} and {kind: "file", name, units, rings}. Rings are lists of
// [longitude, latitude]; a place is inside where it is inside an odd number of them.

import { numberFormat, say, whole } from "./phrases.js";
import { EQUATOR_KM, RADIANS, addToBox, areaCode, areaName, distanceKm, emptyBox, placeOf, rangeOf } from "./places.js";

/** Whether a place is inside an odd number of rings. */
function insideRings(rings, x, y) {
  let odd = false;
  for (const { ring, west, east, south, north } of rings) {
    if (x < west || x > east || y < south || y > north) continue;
    for (let i = 0, j = ring.length - 1; i < ring.length; j = i++) {
      const [[x1, y1], [x2, y2]] = [ring[i], ring[j]];
      if (y1 > y !== y2 > y && x < ((x2 - x1) * (y - y1)) / (y2 - y1) + x1) odd = !odd;
    }
  }
  return odd;
}

/** The finest units whose centroid is inside; external zones have none. */
export function unitsInside(data, rings) {
  const boxed = rings.map((ring) => {
    const ends = (axis) => ring.reduce(([a, b], at) => [Math.min(a, at[axis]), Math.max(b, at[axis])], [Infinity, -Infinity]);
    const [[west, east], [south, north]] = [ends(0), ends(1)];
    return { ring, west, east, south, north };
  });
  const { latitude, longitude } = data.finest;
  return unitsWhere(data, (unit) => insideRings(boxed, longitude[unit], latitude[unit]));
}

function unitsWhere(data, holds) {
  const found = [];
  for (let unit = 0; unit < data.nFinest; unit++) if (!data.isExternal[unit] && holds(unit)) found.push(unit);
  return found;
}

/** The finest units that a part counts. */
export function unitsOf(data, part) {
  if (part.kind === "area") {
    const [first, end] = rangeOf(part.level, part.unit);
    return Array.from({ length: end - first }, (_, i) => first + i);
  }
  if (part.kind === "layer") return unitsWhere(data, (unit) => part.level.areaOf[unit] === part.unit);
  if (part.kind === "outline") return unitsInside(data, part.rings);
  if (part.kind === "file") return part.units;
  const { latitude, longitude } = data.finest;
  const [x, y] = part.at;
  return unitsWhere(data, (unit) => distanceKm(y, x, latitude[unit], longitude[unit]) <= part.km);
}

export const isArea = ({ kind }) => kind === "area" || kind === "layer";
const degreesWords = ([x, y]) => `${y.toFixed(4)}, ${x.toFixed(4)}`;

const upToTwo = numberFormat({ maximumFractionDigits: 2, useGrouping: false });

/** What a part is called. */
export function partName(part) {
  if (isArea(part)) return areaName(part.level, part.unit);
  if (part.kind === "outline") return say("outline");
  if (part.kind === "file") return part.name;
  return say("circle", { km: upToTwo.format(part.km), place: degreesWords(part.at) });
}

/** The same in short, and the same for the same part: what stands in the address. */
export function partKey(part) {
  if (isArea(part)) return `${part.level.id}:${part.level.codes[part.unit]}`;
  const places = (ring) => ring.map(([x, y]) => `${y.toFixed(5)},${x.toFixed(5)}`).join(" ");
  if (part.kind === "outline") return `outline:${part.rings.map(places).join(";")}`;
  if (part.kind === "circle") return `circle:${places([part.at])} ${+part.km.toFixed(4)}`;
  return `file:${runs(part.units)} ${part.name}`;
}

/** Units that rise as gaps and lengths of runs in base 36: "a.3-1.1". */
function runs(units) {
  const words = [];
  let end = 0;
  for (let i = 0; i < units.length; ) {
    let n = 1;
    while (units[i + n] === units[i] + n) n++;
    words.push(`${(units[i] - end).toString(36)}.${n.toString(36)}`);
    end = units[i] + n;
    i += n;
  }
  return words.join("-");
}

function unitsOfRuns(data, words) {
  const units = [];
  let at = 0;
  for (const word of words.split("-")) {
    const [gap, n] = word.split(".").map((digits) => parseInt(digits, 36));
    at += gap;
    for (let i = 0; i < n && at < data.nFinest; i++) units.push(at++);
  }
  return units;
}

/** The part that a key of `partKey` stands for; null where this map has none such. */
export function partOfKey(data, key) {
  const at = key.indexOf(":");
  const [kind, rest] = [key.slice(0, at), key.slice(at + 1)];
  const places = (words) => words.split(" ").map((pair) => pair.split(",").map(Number).reverse());
  const level = [...data.levels, ...data.layers].find(({ id }) => id === kind);
  if (level) {
    const unit = level.codes.indexOf(rest);
    return unit < 0 ? null : { kind: level.areaOf ? "layer" : "area", level, unit };
  }
  const good = (ring) => ring.every((place) => place.length === 2 && Math.abs(place[0]) <= 360 && Math.abs(place[1]) <= 90);
  if (kind === "outline") {
    const rings = rest.split(";").map(places);
    return rings.every((ring) => ring.length > 2 && good(ring)) ? { kind, rings } : null;
  }
  if (kind === "circle") {
    const [place, km] = rest.split(" ");
    const [centre] = places(place);
    return good([centre]) && Number(km) > 0 ? { kind, at: centre, km: Number(km) } : null;
  }
  if (kind !== "file") return null;
  const [words, ...name] = rest.split(" ");
  const units = unitsOfRuns(data, words);
  return units.length ? { kind, name: name.join(" "), units, rings: [] } : null;
}

/** Parts together: which finest units they count, once each. */
export class Selection {
  constructor(data, parts) {
    this.data = data;
    this.parts = parts;
    this.key = parts.map(partKey).join("\n");
    this.has = new Uint8Array(data.nFinest);
    for (const part of parts) for (const unit of unitsOf(data, part)) this.has[unit] = 1;
    this.ranges = []; // [first, end) of finest units, in order
    this.size = 0;
    for (let unit = 0; unit < data.nFinest; unit++) {
      if (!this.has[unit]) continue;
      if (this.ranges.at(-1)?.[1] === unit) this.ranges.at(-1)[1]++;
      else this.ranges.push([unit, unit + 1]);
      this.size++;
    }
    this.external = this.units().every((unit) => data.isExternal[unit]);
    this.covers = new Map();
  }

  units() {
    return this.ranges.flatMap(([first, end]) => Array.from({ length: end - first }, (_, i) => first + i));
  }

  /** The units of a level that it overlaps: {over: 1 for each of them, n of them, whole: all of them are in it}. */
  cover(level) {
    if (!this.covers.has(level)) {
      const [over, counts] = [new Uint8Array(level.codes.length), new Uint32Array(level.codes.length)];
      for (const [first, end] of this.ranges) for (let at = first; at < end; at++) counts[level.unitOf[at]]++;
      let [n, whole] = [0, true];
      counts.forEach((count, unit) => {
        if (!count) return;
        over[unit] = 1;
        n++;
        const [first, end] = rangeOf(level, unit);
        whole &&= count === end - first;
      });
      this.covers.set(level, { over, n, whole });
    }
    return this.covers.get(level);
  }

  /** Where lines to it end: a single area's place, or the middle of the centroids of all that it counts. */
  get place() {
    const [only] = this.parts;
    if (this.parts.length === 1 && only.kind === "area") return placeOf(only.level, only.unit);
    const { finest, isExternal } = this.data;
    const units = this.units().filter((unit) => this.external || !isExternal[unit]);
    const mean = (values) => units.reduce((sum, unit) => sum + values[unit], 0) / units.length;
    return [mean(finest.longitude), mean(finest.latitude)];
  }

  /** [[west, south], [east, north]] of its centroids and shapes. */
  get bounds() {
    const { latitude, longitude } = this.data.finest;
    const box = emptyBox();
    this.units().forEach((unit) => addToBox(box, [longitude[unit], latitude[unit]]));
    this.shapes().forEach(({ geometry }) => addToBox(box, geometry.coordinates));
    return box;
  }

  /** The outlines of its parts, where they have any. */
  shapes() {
    return this.parts.flatMap((part) => {
      if (isArea(part)) return part.level.shapes?.features.filter(({ id }) => id === part.unit) ?? [];
      const rings = part.kind === "circle" ? [ringAround(part.at, part.km)] : (part.rings ?? []);
      const polygons = rings.map((ring) => [[...ring, ring[0]]]);
      return polygons.length ? [{ type: "Feature", properties: {}, geometry: { type: "MultiPolygon", coordinates: polygons } }] : [];
    });
  }

  /** The finest units of parts of which nobody knows a border: of a file whose link this is, which has only these. */
  dots() {
    const parts = this.parts.filter(({ kind, level, rings }) => (kind === "layer" ? !level.shapes : rings?.length === 0));
    return [...new Set(parts.flatMap((part) => unitsOf(this.data, part)))];
  }

  /** The unit of a level that it is, -1 where there is none. */
  asUnitOf(level) {
    const { over, n, whole } = this.cover(level);
    return n === 1 && whole ? over.indexOf(1) : -1;
  }
}

/** Whether one of the areas of a selection is of a level whose flows are noise. */
export const isNoise = ({ parts }) => parts.some(({ kind, level }) => kind === "area" && level.noise);

/** A selection of parts, none twice; null of none. */
export function selectionOf(data, parts) {
  const different = new Map(parts.map((part) => [partKey(part), part]));
  return different.size ? new Selection(data, [...different.values()]) : null;
}

/** So many areas of a level, in words. */
export const numberOf = (n, { one, many }) => `${whole.format(n)} ${n === 1 ? one : many}`;

/** What a selection is called. */
export function selectionName({ parts, size }, finest) {
  if (parts.length === 1) return partName(parts[0]);
  const areas = parts.every(isArea);
  return areas ? say("n_areas", { n: parts.length }) : numberOf(size, finest);
}

/** The code that stands beside its name. */
export const selectionCode = ({ parts }) => (parts.length === 1 && isArea(parts[0]) ? areaCode(parts[0].level, parts[0].unit) : "");

/** Which areas a selection counts, where its name does not say it. */
export function countsWords(selection, data) {
  const cut = selection.parts.filter((part) => part.kind !== "area");
  if (!cut.length) return "";
  const { many } = data.finest;
  const rules = [];
  if (cut.some(({ kind }) => kind === "layer")) {
    rules.push(data.meta.left_out.length ? say("rule_blocks", { many }) : say("rule_own", { many }));
  }
  if (cut.some(({ kind }) => kind !== "layer")) rules.push(say("rule_inside", { many }));
  return say("counted_areas", { areas: numberOf(selection.size, data.finest), rules: rules.join(say("or")) });
}

/** A circle as a ring of 72 corners. */
function ringAround([x, y], km) {
  const perDegree = EQUATOR_KM * RADIANS;
  return Array.from({ length: 72 }, (_, i) => {
    const angle = (i * 360 * RADIANS) / 72;
    const north = (km / perDegree) * Math.cos(angle);
    return [x + ((km / perDegree) * Math.sin(angle)) / Math.cos((y + north / 2) * RADIANS), y + north];
  });
}
