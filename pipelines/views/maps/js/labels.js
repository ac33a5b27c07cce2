// Names on the map, for orientation: of counties and towns, as far as the release has them.

import { EVERYBODY } from "./data.js";
import { placeOf } from "./places.js";

const MOST_LABELS = 400; // areas of a level; of more, names would be of no use

/** A name without what stands behind it: "Warwick" of "Warwick city (Kent, RI)". */
const shortName = (name) =>
  name.replace(/ \(.*\)$/, "").replace(/, [A-Z]{2}$/, "").replace(/ (city|town|village|borough|CDP)$/, "");

/** Points with names, in order of importance: of layers that cut across the levels, and of levels below the coarsest. */
export function labelFeatures(data) {
  const labels = new Map();
  const count = data.counts[EVERYBODY];
  // People find their way by towns: a county, of which there are few, has its name where it hides none of these.
  const add = (level, unitOf, places, rank) => {
    if (!level.names.length || level.codes.length - level.externalZones.size > MOST_LABELS) return;
    const people = new Float64Array(level.codes.length); // who work and who live there
    for (const ends of [data.work, data.home]) {
      ends.forEach((unit, row) => unitOf[unit] >= 0 && (people[unitOf[unit]] += count[row]));
    }
    level.names.forEach((name, unit) => {
      const words = shortName(name ?? "");
      // Tracts are called by numbers; a town that is a place as well has its name once.
      if (!/\p{L}{2}/u.test(words) || level.externalZones.has(unit) || labels.has(words)) return;
      labels.set(words, { name: words, place: places(unit), rank, people: people[unit] });
    });
  };
  for (const layer of data.layers) {
    const sums = Array.from(layer.codes, () => [0, 0, 0]);
    layer.areaOf.forEach((area, unit) => {
      if (area < 0) return;
      const [x, y] = placeOf(data.finest, unit);
      sums[area] = [sums[area][0] + x, sums[area][1] + y, sums[area][2] + 1];
    });
    add(layer, layer.areaOf, (unit) => [sums[unit][0] / sums[unit][2], sums[unit][1] / sums[unit][2]], 1);
  }
  data.levels.slice(1).forEach((level) => add(level, level.unitOf, (unit) => placeOf(level, unit), 2));
  const first = (a, b) => a.rank - b.rank || b.people - a.people;
  return [...labels.values()].sort(first).map(({ name, place }, order) => ({
    type: "Feature",
    properties: { name, order },
    geometry: { type: "Point", coordinates: place },
  }));
}
