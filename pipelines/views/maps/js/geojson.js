// A file of polygons that a reader opens: GeoJSON, of which only the outlines are used. It stays in the browser.

import { say } from "./phrases.js";
import { extentOf } from "./places.js";
import { unitsInside } from "./selection.js";

const MOST_BYTES = 20_000_000;

/** A file that is not what it should be; the message names the rule. */
export class FileError extends Error {}

/**
 * The rings of all polygons of a GeoJSON text.
 *
 * `middle` is a longitude of the region: the file's longitudes are turned to be less than 180 degrees from it, as
 * those of the page are.
 */
function ringsOfGeojson(text, middle) {
  let content;
  try {
    content = JSON.parse(text);
  } catch {
    throw new FileError(say("not_json"));
  }
  const { crs } = content ?? {};
  const names = [crs, crs?.name, crs?.properties?.name, crs?.properties?.code];
  const words = names.filter((name) => ["string", "number"].includes(typeof name)).join(" ");
  if (crs && !/CRS84|4326|4269/.test(words)) {
    throw new FileError(say("wrong_system"));
  }
  const rings = [];
  const add = (polygon) => {
    const isPlace = (place) => Array.isArray(place) && place.slice(0, 2).length === 2 && place.slice(0, 2).every(Number.isFinite);
    const isRing = (ring) => Array.isArray(ring) && ring.length > 3 && ring.every(isPlace);
    if (!Array.isArray(polygon) || !polygon.every(isRing)) {
      throw new FileError(say("wrong_ring"));
    }
    if (polygon.flat().some(([x, y]) => Math.abs(x) > 360 || Math.abs(y) > 90)) {
      throw new FileError(say("not_degrees"));
    }
    rings.push(...polygon.map((ring) => ring.map(([x, y]) => [x - 360 * Math.floor((x - middle + 180) / 360), y])));
  };
  // However deep they lie in each other: a list of what is open, as calls of calls have an end.
  const open = [content];
  while (open.length) {
    const part = open.pop();
    const inside = part?.type === "FeatureCollection" ? part.features : part?.type === "GeometryCollection" ? part.geometries : null;
    if (Array.isArray(inside)) for (let at = inside.length - 1; at >= 0; at--) open.push(inside[at]);
    else if (part?.type === "Feature") open.push(part.geometry);
    else if (part?.type === "Polygon") add(part.coordinates);
    else if (part?.type === "MultiPolygon" && Array.isArray(part.coordinates)) part.coordinates.forEach(add);
  }
  if (!rings.length) throw new FileError(say("no_polygon"));
  return rings;
}

/** The part of a selection that a file stands for. */
export async function partOfFile(data, file) {
  if (file.size > MOST_BYTES) throw new FileError(say("too_large"));
  const [[west], [east]] = extentOf(data);
  const rings = ringsOfGeojson(await file.text(), (west + east) / 2);
  const units = unitsInside(data, rings);
  if (!units.length) throw new FileError(say("file_empty", { one: data.finest.one }));
  return { kind: "file", name: file.name, units, rings };
}
