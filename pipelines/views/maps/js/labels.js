// Names on the map, for orientation: of counties and towns, as far as the release has them.

import { EVERYBODY } from "./data.js";
import { placeOf } from "./places.js";

const MOST_LABELS = 400; // areas of a level; of more, names would be of no use

/** A name without what stands behind it: "Warwick" of "Warwick city (Kent, RI)". */
const shortName = (name) =>
  name.replace(/ \(.*\)$/, "").replace(/, [A-Z]{2}$/, "").replace(/ (city|town|village|borough|CDP)$/, "");

/** Points with names: of levels below the coarsest and of layers that cut across them, the largest first. */
export function labelFeatures(data) {
  const labels = new Map();
  const add = (level, unitOf, places) => {
    if (!level.names.length || level.codes.length - level.externalZones.size > MOST_LABELS) return;
    const jobs = new Float64Array(level.codes.length);
    data.work.forEach((unit, row) => unitOf[unit] >= 0 && (jobs[unitOf[unit]] += data.counts[EVERYBODY][row]));
    level.names.forEach((name, unit) => {
      const words = shortName(name ?? "");
      // Tracts are called by numbers; a town that is a place as well has its name once.
      if (!/\p{L}{2}/u.test(words) || level.externalZones.has(unit) || labels.has(words)) return;
      labels.set(words, { name: words, place: places(unit), jobs: jobs[unit] });
    });
  };
  data.levels.slice(1).forEach((level) => add(level, level.unitOf, (unit) => placeOf(level, unit)));
  for (const layer of data.layers) {
    const sums = Array.from(layer.codes, () => [0, 0, 0]);
    layer.areaOf.forEach((area, unit) => {
      if (area < 0) return;
      const [x, y] = placeOf(data.finest, unit);
      sums[area] = [sums[area][0] + x, sums[area][1] + y, sums[area][2] + 1];
    });
    add(layer, layer.areaOf, (unit) => [sums[unit][0] / sums[unit][2], sums[unit][1] / sums[unit][2]]);
  }
  return [...labels.values()].map(({ name, place, jobs }) => ({
    type: "Feature",
    properties: { name, jobs },
    geometry: { type: "Point", coordinates: place },
  }));
}
