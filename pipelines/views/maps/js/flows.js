// Sums over the rows of the release. A row has a work unit and a home unit of the finest level, and its counts;
// every other level is a range of them, so one pass over typed arrays adds up anything in milliseconds.
//
// `side` says what the reader picks: "work" (where do its workers live?), "home" (where do its people work?) or, of a
// selection, "both". A selection is a `Selection`, or null for the whole region.

import { bearing, distanceKm, rangeOf, standsFor } from "./places.js";

/** Call visit(row) for each row of a selection. */
function eachRow(data, side, selection, visit) {
  if (side === "work" || !selection) {
    for (const [first, end] of selection?.ranges ?? [[0, data.nFinest]]) {
      for (let row = data.firstRow[first]; row < data.firstRow[end]; row++) visit(row);
    }
    return;
  }
  const { has } = selection;
  const both = side === "both";
  for (let row = 0; row < data.home.length; row++) {
    if (has[data.home[row]] || (both && has[data.work[row]])) visit(row);
  }
}

/**
 * Jobs of a selection: whose workers come from elsewhere, who live and work in it, who leave it for work. Nobody comes or
 * leaves for work in an external zone, at home say: such jobs of a zone in it are `there`, those of its residents `beyond`.
 */
export function balanceOf(data, selection, column) {
  const count = data.counts[column];
  const { has } = selection;
  const { home, work } = data;
  const sums = { come: 0, stay: 0, leave: 0, there: 0, beyond: 0 };
  for (let row = 0; row < home.length; row++) {
    const which = balanceGroup(has[home[row]], has[work[row]], data.isExternal[work[row]]);
    if (which >= 0) sums[BALANCE[which]] += count[row];
  }
  const { come, stay, leave, there, beyond } = sums;
  return { ...sums, work: come + stay + there, live: stay + leave + beyond, all: come + stay + leave + there + beyond };
}

export const BALANCE = ["come", "stay", "leave", "there", "beyond"];
/** Which of these a job is, by whether its home and its workplace are in a selection, and that is an external zone; -1: none. */
export const balanceGroup = (lives, works, zone) => (lives && works ? 1 : works ? (zone ? 3 : 0) : lives ? (zone ? 4 : 2) : -1);

/** All jobs of a selection, by column. */
export function sumsOf(data, side, selection) {
  const sums = Object.entries(data.counts).map(([id, count]) => {
    let sum = 0;
    eachRow(data, side, selection, (row) => (sum += count[row]));
    return [id, sum];
  });
  return Object.fromEntries(sums);
}

/** Jobs between a selection and each unit of a level beyond it, who stays left out: {come: from there, leave: there}. */
export function partnersOf(data, selection, level, column) {
  const count = data.counts[column];
  const [come, leave] = [new Float64Array(level.codes.length), new Float64Array(level.codes.length)];
  eachRow(data, "both", selection, (row) => {
    const [home, work] = [data.home[row], data.work[row]];
    if (!selection.has[home]) come[level.unitOf[home]] += count[row];
    else if (!selection.has[work]) leave[level.unitOf[work]] += count[row];
  });
  return { come, leave };
}

/** Jobs of a selection by unit of a level: by place "work" where they are, by place "home" where workers live. */
export function totalsOf(data, place, level, column, side = "work", selection = null) {
  const count = data.counts[column];
  const units = place === "work" ? data.work : data.home;
  const sums = new Float64Array(level.codes.length);
  eachRow(data, side, selection, (row) => (sums[level.unitOf[units[row]]] += count[row]));
  return sums;
}

/** What the map colours: the selection's partners, or without one every area that could be picked. */
export function mapped(data, side, selection, level, column) {
  if (side === "both") {
    const { come, leave } = partnersOf(data, selection, level, column);
    return come.map((jobs, unit) => jobs + leave[unit]);
  }
  const other = side === "work" ? "home" : "work";
  return totalsOf(data, selection ? other : side, level, column, side, selection);
}

/** The places of whole numbers in their order, the smallest first; by counting, which is quicker than by comparing. */
export function orderBy(numbers) {
  const next = new Uint32Array(numbers.reduce((most, n) => Math.max(most, n), 0) + 2); // place of the next of each number
  for (const n of numbers) next[n + 1]++;
  for (let n = 1; n < next.length; n++) next[n] += next[n - 1];
  const order = new Uint32Array(numbers.length);
  numbers.forEach((n, at) => (order[next[n]++] = at));
  return order;
}

/** Flows between two areas each, strongest first: between blocks they are millions, and objects only while one looks at them. */
class Flows {
  /** Typed arrays as long as each other; an end is -1 where it is the selection's. */
  constructor(home, work, jobs) {
    this.home = home;
    this.work = work;
    this.jobs = jobs;
  }

  static sorted(home, work, jobs) {
    const [n, order] = [jobs.length, orderBy(jobs)];
    const flows = new Flows(new Int32Array(n), new Int32Array(n), new Uint32Array(n));
    for (let i = 0; i < n; i++) {
      const at = order[n - 1 - i];
      [flows.home[i], flows.work[i], flows.jobs[i]] = [home[at], work[at], jobs[at]];
    }
    return flows;
  }

  get length() {
    return this.jobs.length;
  }

  /** {home, work, jobs}; an end is null where it is the selection's. */
  at(i) {
    const end = (unit) => (unit < 0 ? null : unit);
    return { home: end(this.home[i]), work: end(this.work[i]), jobs: this.jobs[i] };
  }

  *[Symbol.iterator]() {
    for (let i = 0; i < this.length; i++) yield this.at(i);
  }

  /** The strongest of them. */
  first(n) {
    return new Flows(this.home.subarray(0, n), this.work.subarray(0, n), this.jobs.subarray(0, n));
  }

  /** Those with so many jobs or more. */
  atLeast(jobs) {
    const end = this.jobs.findIndex((n) => n < jobs);
    return end < 0 ? this : this.first(end);
  }
}

/**
 * Flows between two areas each: {flows: `Flows`, inside, beyond: jobs of no flow}. Work in an external zone has no place to go to.
 *
 * With a selection its own end may be of another level than the areas at the other ends. Jobs whose other
 * end is an area that overlaps the selection are inside; without a selection, those with both ends in one area.
 */
export function flowsOf(data, side, selection, level, column) {
  return selection ? selectedFlows(data, side, selection, level, column) : allFlows(data, level, column);
}

function selectedFlows(data, side, selection, level, column) {
  const [home, work, jobs] = [[], [], []];
  const { has } = selection;
  const { over } = selection.cover(level);
  const count = data.counts[column];
  const [from, to] = [new Float64Array(level.codes.length), new Float64Array(level.codes.length)];
  let [inside, beyond] = [0, 0];
  eachRow(data, side, selection, (row) => {
    const [lives, works] = [data.home[row], data.work[row]];
    if (data.isExternal[works]) beyond += count[row];
    else if (side === "both" && has[lives] && has[works]) inside += count[row];
    else if (side === "work" || (side === "both" && has[works])) from[level.unitOf[lives]] += count[row];
    else to[level.unitOf[works]] += count[row];
  });
  const add = (values, place) => {
    const ends = new Map();
    values.forEach((n, unit) => {
      if (over[unit]) inside += n;
      else if (n > 0) ends.set(standsFor(level, unit), (ends.get(standsFor(level, unit)) ?? 0) + n);
    });
    ends.forEach((n, unit) => {
      home.push(place === "home" ? unit : -1);
      work.push(place === "work" ? unit : -1);
      jobs.push(n);
    });
  };
  add(from, "home");
  add(to, "work");
  return { flows: Flows.sorted(home, work, jobs), inside, beyond };
}

function allFlows(data, level, column) {
  const count = data.counts[column];
  const n = data.home.length; // there are no more flows than rows
  const [homes, works, jobs] = [new Int32Array(n), new Int32Array(n), new Uint32Array(n)];
  const sums = new Float64Array(level.codes.length);
  const standing = Uint32Array.from(level.codes, (_, unit) => standsFor(level, unit));
  let [inside, beyond, found] = [0, 0, 0];
  for (let work = 0; work < level.codes.length; work++) {
    const [first, end] = rangeOf(level, work);
    const begin = found;
    if (level.externalZones.has(work)) {
      for (let row = data.firstRow[first]; row < data.firstRow[end]; row++) beyond += count[row];
      continue;
    }
    for (let row = data.firstRow[first]; row < data.firstRow[end]; row++) {
      const home = standing[level.unitOf[data.home[row]]];
      if (home !== work && sums[home] === 0 && count[row] > 0) [homes[found], works[found++]] = [home, work];
      sums[home] += count[row];
    }
    inside += sums[work];
    sums[work] = 0;
    for (let at = begin; at < found; at++) {
      jobs[at] = sums[homes[at]];
      sums[homes[at]] = 0;
    }
  }
  return { flows: Flows.sorted(...[homes, works, jobs].map((values) => values.subarray(0, found))), inside, beyond };
}

export const DIRECTIONS = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"];
export const DISTANCES = [5, 10, 20, 50]; // upper ends of the classes but the last, in the reader's unit
export const MEDIAN_STEP_KM = 0.01;
const FARTHEST_KM = 20_040; // half way round the earth
export const stepOf = (km) => Math.round(km / MEDIAN_STEP_KM);
/** Which of the classes between bounds a distance is in. */
export function distanceOf(km, bounds) {
  const found = bounds.findIndex((bound) => km < bound);
  return found < 0 ? bounds.length : found;
}
/** Which of the directions place 2 is in. */
export const directionOf = (...places) => Math.round(bearing(...places) / 45) % DIRECTIONS.length;

/** The distance of each row in km; NaN from and to external zones, which have no place. Made once: it takes the longest. */
export function kmOfRows(data) {
  const { latitude, longitude } = data.finest;
  if (data.km) return data.km;
  data.km = new Float32Array(data.home.length);
  for (let row = 0; row < data.km.length; row++) {
    const [home, work] = [data.home[row], data.work[row]];
    data.km[row] = isPlaced(data, row) ? distanceKm(latitude[work], longitude[work], latitude[home], longitude[home]) : NaN;
  }
  return data.km;
}

/** Whether home and workplace of a row have a place: neither is an external zone. */
export const isPlaced = (data, row) => !data.isExternal[data.home[row]] && !data.isExternal[data.work[row]];

/**
 * How far, and in which direction, the other ends of the jobs of a selection are.
 *
 * Between the centroids of the finest areas in the page. External zones have no place: who lives or works there is counted apart.
 * Returns {jobs, placed: those with a distance, externalZones: Map unit of the finest level -> {live, work, jobs}, elsewhere: the
 * same of all zones elsewhere together, mean, median (km), classes: jobs by distance, rose: jobs by direction and distance, noDirection: jobs whose ends are at one centroid, inOne: those
 * of them whose ends are in one area}.
 */
export function commutes(data, side, selection, column, kmPerUnit) {
  const { latitude, longitude } = data.finest;
  const count = data.counts[column];
  const far = kmOfRows(data);
  const bounds = DISTANCES.map((bound) => bound * kmPerUnit);
  const classes = new Float64Array(bounds.length + 1);
  const rose = DIRECTIONS.map(() => new Float64Array(bounds.length + 1));
  const [externalZones, elsewhere] = [new Map(), { live: 0, work: 0, jobs: 0 }];
  const steps = new Float64Array(FARTHEST_KM / MEDIAN_STEP_KM);
  let [jobs, placed, sum, noDirection, inOne] = [0, 0, 0, 0, 0];
  eachRow(data, side, selection, (row) => {
    const n = count[row];
    if (n === 0) return;
    jobs += n;
    const [home, work] = [data.home[row], data.work[row]];
    if (!isPlaced(data, row)) {
      const zones = new Set([home, work].filter((unit) => data.isExternal[unit]));
      const minor = [...zones].filter((unit) => !data.externalZones.get(unit).main);
      const count = (zone, units) => {
        if (units.includes(home)) zone.live += n;
        if (units.includes(work)) zone.work += n;
        zone.jobs += n;
        return zone;
      };
      for (const unit of zones) externalZones.set(unit, count(externalZones.get(unit) ?? { live: 0, work: 0, jobs: 0 }, [unit]));
      if (minor.length) count(elsewhere, minor);
      return;
    }
    // As seen from the selection; of who stays in it, from work.
    const atWork = side === "work" || (side === "both" && selection.has[work]);
    const [from, to] = atWork ? [work, home] : [home, work];
    const km = far[row];
    placed += n;
    sum += n * km;
    steps[stepOf(km)] += n;
    const distance = distanceOf(km, bounds);
    classes[distance] += n;
    if (km === 0) {
      noDirection += n;
      if (home === work) inOne += n;
      return;
    }
    rose[directionOf(latitude[from], longitude[from], latitude[to], longitude[to])][distance] += n;
  });
  const [mean, median] = [sum / placed, medianOf(steps, placed)];
  return { jobs, placed, externalZones, elsewhere, mean, median, classes, rose, noDirection, inOne };
}

function medianOf(steps, n) {
  let below = 0;
  return n > 0 ? steps.findIndex((jobs) => (below += jobs) >= n / 2) * MEDIAN_STEP_KM : NaN;
}
