// Areas and the way between two of them.

import { say } from "./phrases.js";

/** Units of the finest level that a unit of a level holds: [first, end). */
export function rangeOf(level, unit) {
  return [level.starts[unit], level.starts[unit + 1] ?? level.unitOf.length];
}

/** A code with its parts set apart: 44 007 000100. The gaps do not break a line. */
export function readable(level, code) {
  if (level.groups.reduce((a, b) => a + b, 0) !== code.length) return code;
  let at = 0;
  return level.groups.map((length) => code.slice(at, (at += length))).join("\u00a0");
}

/** The unit that stands for a unit on the map: for all external zones elsewhere the first of them. */
export const standsFor = ({ externalZones, elsewhere }, unit) => (externalZones.get(unit)?.main === false ? elsewhere[0] : unit);
/** Which units it stands for: itself, or all zones elsewhere. */
export const standingFor = ({ elsewhere }, unit) => (unit === elsewhere[0] ? elsewhere : [unit]);
/** Whether what stands for a unit on the map stands for others too. */
export const isElsewhere = (level, unit) => standingFor(level, unit).length > 1;

export const capital = (words) => words.charAt(0).toUpperCase() + words.slice(1);
const codeWords = (level, unit) => `${capital(level.one)} ${readable(level, level.codes[unit])}`;
const zoneWords = ({ code }) => say("external_zone_code", { code });
/** What an area is called: its name, or else its code. */
export function areaName(level, unit) {
  const zone = level.externalZones.get(unit);
  if (zone) return zone.name === zone.code ? zoneWords(zone) : zone.name;
  return level.names[unit] ?? codeWords(level, unit);
}
/** What the end of a line is called. */
export const endName = (level, unit) =>
  isElsewhere(level, unit) ? say("elsewhere", { n: level.elsewhere.length }) : areaName(level, unit);
/** The code that stands beside a name. */
export function areaCode(level, unit) {
  const zone = level.externalZones.get(unit);
  if (zone) return zone.name === zone.code ? "" : zoneWords(zone);
  return level.names[unit] ? codeWords(level, unit) : "";
}

export const RADIANS = Math.PI / 180;
export const MOST_ZOOM = 16; // of the map
// WGS84
export const EQUATOR_KM = 6378.137;
const FLATTENING = 1 / 298.257223563;

/**
 * Length in km of the shortest way between two places on the ellipsoid.
 *
 * The great circle with Lambert's correction for the flattening, right to some metres over any commute.
 */
export function distanceKm(latitude1, longitude1, latitude2, longitude2) {
  const b1 = Math.atan((1 - FLATTENING) * Math.tan(latitude1 * RADIANS));
  const b2 = Math.atan((1 - FLATTENING) * Math.tan(latitude2 * RADIANS));
  const half = Math.sin(((longitude2 - longitude1) * RADIANS) / 2) ** 2 * Math.cos(b1) * Math.cos(b2);
  const angle = 2 * Math.asin(Math.min(1, Math.sqrt(Math.sin((b2 - b1) / 2) ** 2 + half)));
  if (angle === 0) return 0;
  const p = (b1 + b2) / 2;
  const q = (b2 - b1) / 2;
  const x = ((angle - Math.sin(angle)) * (Math.sin(p) * Math.cos(q)) ** 2) / Math.cos(angle / 2) ** 2;
  const y = ((angle + Math.sin(angle)) * (Math.cos(p) * Math.sin(q)) ** 2) / Math.sin(angle / 2) ** 2;
  return EQUATOR_KM * (angle - (FLATTENING / 2) * (x + y));
}

/** Compass direction in degrees, 0 is north and 90 east, in which the great circle to place 2 begins. */
export function bearing(latitude1, longitude1, latitude2, longitude2) {
  const [a, b] = [latitude1 * RADIANS, latitude2 * RADIANS];
  const turn = (longitude2 - longitude1) * RADIANS;
  const east = Math.sin(turn) * Math.cos(b);
  const north = Math.cos(a) * Math.sin(b) - Math.sin(a) * Math.cos(b) * Math.cos(turn);
  return (Math.atan2(east, north) / RADIANS + 360) % 360;
}

/** Where a place is on the map's square world, which is 1 wide. */
export function onSquare([longitude, latitude]) {
  const sine = Math.sin(latitude * RADIANS);
  return [(longitude + 180) / 360, 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI)];
}

/** @returns {[number, number]} */
export const placeOf = (level, unit) => [level.longitude[unit], level.latitude[unit]];

export const emptyBox = () => [[Infinity, Infinity], [-Infinity, -Infinity]];

/** Make a box of [west, south] and [east, north] hold the places of a geometry. */
export function addToBox(box, coordinates) {
  if (typeof coordinates[0] !== "number") return coordinates.forEach((part) => addToBox(box, part));
  const [x, y] = coordinates;
  box[0] = [Math.min(box[0][0], x), Math.min(box[0][1], y)];
  box[1] = [Math.max(box[1][0], x), Math.max(box[1][1], y)];
}

/** [[west, south], [east, north]] of everything that can be drawn. */
export function extentOf(data) {
  const box = emptyBox();
  const { finest } = data;
  const drawn = data.levels.find((level) => level.shapes);
  drawn?.shapes.features.forEach((feature) => addToBox(box, feature.geometry.coordinates));
  // External zones are on a ring around the region.
  const points = drawn ? finest.externalZones : finest.codes;
  for (const unit of points.keys()) addToBox(box, placeOf(finest, unit));
  return box;
}
