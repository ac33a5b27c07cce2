// Posterior draws of what the true numbers may be, by home and work. Whatever is a sum of their cells has a value in each
// draw; its interval goes between two of these values, in their order. Where jobs by place of work are public totals, all
// draws have these: their intervals would be single numbers.

import { BALANCE, DIRECTIONS, DISTANCES, MEDIAN_STEP_KM, balanceGroup, directionOf, distanceOf, isPlaced, kmOfRows, orderBy, stepOf } from "./flows.js";
import { distanceKm, rangeOf, standsFor } from "./places.js";
import { Selection } from "./selection.js";

export class Draws {
  /**
   * Of the tables, those of a kind: `apart`, whose noise is of this release alone, where it has a history; `unbiased`: with what noisy
   * counts say of each cell, and its variance, in place of draws.
   */
  constructor(levels, { n, low, high, estimated, tables }, array, { apart = false, unbiased = false }) {
    this.levels = levels;
    this.n = unbiased ? 2 : n;
    this.low = low;
    this.high = high;
    this.estimated = estimated; // columns of which jobs by place of work are estimates, and no public totals
    const levelOf = (id) => levels.find((level) => level.id === id) ?? null;
    const own = [...tables.entries()].filter(([, table]) => table.apart === apart && table.unbiased === unbiased);
    this.tables = own.map(([at, table]) => {
      const [home, counts, work] = [array(`home:${at}`), array(`counts:${at}`), new Uint32Array(array(`home:${at}`).length)];
      let cell = 0;
      array(`rows:${at}`).forEach((size, unit) => work.fill(unit, cell, (cell += size)));
      return { column: table.column, homes: levelOf(table.home), works: levelOf(table.work), home, work, counts };
    });
  }

  /** The tables that have whatever is said of homes and of workplaces, each a level or a selection; the coarsest is first. */
  fitting(column, homes, works) {
    const fits = (level, asked) =>
      asked.every((one) =>
        level && (one instanceof Selection ? one.cover(level).whole : this.levels.indexOf(one) <= this.levels.indexOf(level)),
      );
    return this.tables.filter((table) => table.column === column && fits(table.homes, homes) && fits(table.works, works));
  }

  /** The first of these; null where there is none. */
  table(column, homes, works) {
    return this.fitting(column, homes, works)[0] ?? null;
  }

  /** Jobs in each draw by group: cells of a table go to groupOf(home, work, cell), or nowhere where it is below 0. */
  sums({ home, work, counts }, groups, groupOf) {
    const { n } = this;
    const sums = Array.from({ length: groups }, () => new Float64Array(n));
    for (let cell = 0; cell < home.length; cell++) {
      const group = groupOf(home[cell], work[cell], cell);
      if (group < 0) continue;
      const sum = sums[group];
      for (let draw = 0, at = cell * n; draw < n; draw++, at++) sum[draw] += counts[at];
    }
    return sums;
  }

  /** The ends of the interval of a number, from its values in all draws; null of none. */
  ends(values) {
    if (!values) return null;
    const sorted = Float64Array.from(values).sort();
    return [sorted[this.low], sorted[this.high]];
  }
}

/** Number by number of two lists. */
export const added = (a, b) => a.map((value, at) => value + b[at]);
/** As many as both have. */
export const less = (a, b) => Float64Array.from({ length: Math.min(a.length, b.length) }, (_, at) => a[at] - b[at]);

/**
 * The difference of two numbers in each draw, moved towards an unbiased estimate, [estimate, variance], as far as draws spread; left
 * as it is where there is none. As `differences` of synth/posterior/differences.py, which says why.
 */
export function movedDifference(a, b, [unbiased, variance]) {
  const apart = less(a, b);
  if (!(variance > 0)) return apart;
  const mean = (list) => list.reduce((sum, value) => sum + value, 0) / list.length;
  const spreadOf = (list) => {
    const middle = mean(list);
    return list.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (list.length - 1);
  };
  const root = Math.sqrt(Math.min((spreadOf(a) + spreadOf(b)) / variance, 1));
  const moved = (root / (1 + root)) * (unbiased - mean(apart));
  const n = apart.length;
  return apart.map((value, draw) => value + Math.round(moved + Math.sign(moved) * ((draw + 0.5) / n - 0.5)));
}
const quotients = (a, b) => a.map((value, at) => (b[at] ? value / b[at] : 0));
/** The unit of a coarser level, or the same, that each unit of a level is in. */
const unitsIn = (level, coarser) => Int32Array.from(level.starts, (start) => coarser.unitOf[start]);

/** In each draw: who comes to a selection, stays, leaves (as `balanceOf`), works, lives in it, and all; null where draws do not tell. */
export function balanceDraws(data, selection, column) {
  const { draws } = data;
  const none = { come: null, stay: null, leave: null, there: null, beyond: null, work: null, live: null, all: null };
  if (!draws) return none;
  const table = draws.table(column, [selection], [selection]);
  if (table) {
    const [from, to] = [selection.cover(table.homes).over, selection.cover(table.works).over];
    const { externalZones } = table.works;
    const sums = draws.sums(table, BALANCE.length, (home, work) => balanceGroup(from[home], to[work], externalZones.has(work)));
    const [come, stay, leave, there, beyond] = sums;
    const [work, live] = [[come, stay, there], [stay, leave, beyond]].map((parts) => parts.reduce(added));
    return { come, stay, leave, there, beyond, work, live, all: sums.reduce(added) };
  }
  const residents = draws.table(column, [selection], []);
  if (!residents) return none;
  const { over } = selection.cover(residents.homes);
  const [live] = draws.sums(residents, 1, (home) => over[home] - 1);
  return { ...none, live };
}

/**
 * What the map colours in each draw, by unit of a level: {values: lists by unit}, with side "both" {come, leave} of them too;
 * {} where draws do not tell.
 */
export function partnerDraws(data, side, selection, level, column) {
  const { draws } = data;
  if (!draws || (!selection && side === "work")) return {};
  const [homes, works] = {
    work: [[level], [selection]],
    home: selection ? [[selection], [level]] : [[level], []],
    both: [[level, selection], [level, selection]],
  }[side];
  const table = draws.table(column, homes, works);
  if (!table) return {};
  const n = level.codes.length;
  const overOf = (own) => selection && own && selection.cover(own).over;
  const [from, to] = [overOf(table.homes), overOf(table.works)];
  const [homeOf, workOf] = [table.homes, table.works].map((own) => own && unitsIn(own, level));
  const groupOf = {
    work: (home, work) => (to[work] ? homeOf[home] : -1),
    home: selection ? (home, work) => (from[home] ? workOf[work] : -1) : (home) => homeOf[home],
    both: (home, work) => (from[home] === to[work] ? -1 : to[work] ? homeOf[home] : n + workOf[work]),
  }[side];
  const sums = draws.sums(table, side === "both" ? 2 * n : n, groupOf);
  if (side !== "both") return { values: sums };
  const [come, leave] = [sums.slice(0, n), sums.slice(n)];
  return { come, leave, values: come.map((jobs, unit) => added(jobs, leave[unit])) };
}

/**
 * Intervals of those who live, and who work, in external zones, units of the coarsest level, and are in the totals of a state:
 * {live, work: units -> ends or null}.
 */
export function zoneIntervals(data, { side, selection, column }) {
  const [level] = data.levels;
  const residents = partnerDraws(data, "home", null, level, column).values;
  const { over } = selection ? selection.cover(level) : {};
  const workers = selection && side !== "home" ? partnerDraws(data, "work", selection, level, column).values : null;
  // Of a zone that is chosen, all; of another one those who work in the choice.
  const known = (unit) => (!selection || (side !== "work" && over[unit]) ? residents : workers);
  // All who work in a zone are public totals; of a choice those of its residents are not.
  const leaving = selection && side !== "work" ? partnerDraws(data, "home", selection, level, column).values : null;
  const ends = (valuesOf, units) => {
    const lists = units.map((unit) => valuesOf(unit)?.[unit]);
    return lists.every(Boolean) && lists.length ? data.draws.ends(lists.reduce(added)) : null;
  };
  return { live: (units) => ends(known, units), work: (units) => ends((unit) => (side === "both" && over[unit] ? null : leaving), units) };
}

/** Intervals of flows between units of a level, in their order; null where draws do not tell. */
export function flowIntervals(data, level, column, flows) {
  const table = data.draws?.table(column, [level], [level]);
  if (!table) return null;
  const units = unitsIn(table.homes, level).map((unit) => standsFor(level, unit));
  const at = new Map(flows.map(({ home, work }, i) => [work * level.codes.length + home, i]));
  const groupOf = (home, work) => at.get(units[work] * level.codes.length + units[home]) ?? -1;
  return data.draws.sums(table, flows.length, groupOf).map((values) => data.draws.ends(values));
}

/** Shares of the residents, or commuters, of a selection in each draw, by column; of workers they are exact. */
export function shareDraws(data, side, selection) {
  const { draws } = data;
  if (!draws || !selection || side === "work") return {};
  const found = {};
  for (const { columns } of data.meta.counts.slice(1)) {
    const sums = columns.map(({ id }) => {
      const table = draws.table(id, [selection], side === "both" ? [selection] : []);
      if (!table) return null;
      const [from, to] = [table.homes, table.works].map((own) => own && selection.cover(own).over);
      return draws.sums(table, 1, (home, work) => (from[home] || (side === "both" && to[work]) ? 0 : -1))[0];
    });
    if (sums.includes(null)) continue;
    const all = sums.reduce(added);
    columns.forEach(({ id }, at) => (found[id] = quotients(sums[at], all)));
  }
  return found;
}

const SAME_PLACE = DIRECTIONS.length; // instead of a direction: home and work in one area, or in two with one centroid
const ONE_CENTROID = SAME_PLACE + 1;

/** The table of flows from which distances of a selection are; null where draws do not tell. */
export function commuteTable({ draws, levels }, side, selection, column) {
  const own = selection ? [selection] : [];
  const [home, work] = { work: [[], own], home: [own, []], both: [own, own] }[side];
  return draws?.fitting(column, home, [levels[0], ...work]).at(-1) ?? null; // of homes and workplaces; the finest has the places
}

/**
 * How far, and in which direction, the other ends of the jobs of a selection are in each draw: {level: of the areas between
 * which jobs are as the released ones, jobs: those with a distance, mean, median (km), classes: shares by distance, rose:
 * jobs by direction and distance, inOne, sameCentroid: jobs without a direction}. Null where draws do not tell.
 */
export function commuteDraws(data, side, selection, column, kmPerUnit) {
  if (selection || !data.draws) return commuteDrawsOf(data, side, selection, column, kmPerUnit);
  const [known, key] = [(data.draws.ofRegion ??= new Map()), [side, column, kmPerUnit].join()];
  if (!known.has(key)) known.set(key, commuteDrawsOf(data, side, null, column, kmPerUnit));
  return known.get(key); // of the whole region it takes the longest, and one comes back to it
}

function commuteDrawsOf(data, side, selection, column, kmPerUnit) {
  const table = commuteTable(data, side, selection, column);
  if (!table) return null;
  const { homes, works } = table;
  const { n } = data.draws;
  const { cell, part, km, atWork, atHome } = partsOfCells(data, table);
  const [from, to] = [homes, works].map((level) => selection?.cover(level).over);
  // Of each cell: not counted, as seen from home, as seen from work.
  const seen = Uint8Array.from(table.home, (unit, at) => {
    const here = side !== "home" && (!selection || to[table.work[at]]);
    return here ? 2 : side !== "work" && (!selection || from[unit]) ? 1 : 0;
  });
  const bounds = DISTANCES.map((bound) => bound * kmPerUnit);
  const classes = bounds.length + 1;
  const bins = Array.from({ length: (ONE_CENTROID + 1) * classes }, () => new Float64Array(n));
  const sum = new Float64Array(n);
  for (let i = 0; i < cell.length; i++) {
    const which = seen[cell[i]];
    if (!which) continue;
    const bin = bins[(which === 2 ? atWork : atHome)[i] * classes + distanceOf(km[i], bounds)];
    for (let draw = 0, at = cell[i] * n; draw < n; draw++, at++) {
      const jobs = table.counts[at] * part[i];
      bin[draw] += jobs;
      sum[draw] += jobs * km[i];
    }
  }
  const jobs = bins.reduce(added);
  if (jobs.some((each) => each < 1e-6)) return null; // a draw has nobody there
  const rose = Array.from({ length: ONE_CENTROID + 1 }, (_, direction) => bins.slice(direction * classes, (direction + 1) * classes));
  const [sameCentroid, inOne] = [rose.pop(), rose.pop()].map((lists) => lists.reduce(added));
  return {
    level: homes,
    jobs,
    mean: quotients(sum, jobs),
    median: mediansOf(table, { cell, part, km }, seen, jobs),
    classes: Array.from({ length: classes }, (_, at) => quotients(bins.filter((__, bin) => bin % classes === at).reduce(added), jobs)),
    rose,
    inOne,
    sameCentroid,
  };
}

/** The median in each draw of distances of the cells that are counted, as `medianOf` has it. */
function mediansOf({ counts }, { cell, part, km }, seen, jobs) {
  const n = jobs.length;
  const [below, medians] = [new Float64Array(n), new Float64Array(n).fill(-1)];
  let open = n;
  for (let i = 0; open > 0 && i < cell.length; i++) {
    if (!seen[cell[i]]) continue;
    for (let draw = 0, at = cell[i] * n; draw < n; draw++, at++) {
      below[draw] += counts[at] * part[i];
      // Sums of parts are not exactly the whole.
      if (medians[draw] >= 0 || below[draw] < jobs[draw] / 2 - 1e-6) continue;
      medians[draw] = stepOf(km[i]) * MEDIAN_STEP_KM;
      open--;
    }
  }
  return medians;
}

/**
 * The jobs of each cell of a table of flows in parts that are as the released ones between its two areas, or, where there are none,
 * as from centroid to centroid: {cell, part: of its jobs, km, atWork, atHome: direction as seen from there}, in the order of
 * the steps of medians.
 */
function partsOfCells(data, table) {
  if (data.draws.parts?.table === table) return data.draws.parts;
  const { homes, works } = table;
  const [count, kmOf] = [data.counts[table.column], kmOfRows(data)];
  const n = data.home.length + table.home.length; // there are no more
  const [cell, row, jobs] = [new Uint32Array(n), new Int32Array(n), new Float64Array(table.home.length)];
  const cellOf = new Int32Array(homes.codes.length).fill(-1); // of a home, for one workplace
  let [found, next] = [0, 0];
  for (let work = 0; work < works.codes.length; work++) {
    const begin = next;
    for (; table.work[next] === work; next++) cellOf[table.home[next]] = next;
    const [first, end] = rangeOf(works, work);
    for (let at = data.firstRow[first]; at < data.firstRow[end]; at++) {
      const own = cellOf[homes.unitOf[data.home[at]]];
      if (own < 0 || count[at] === 0 || !isPlaced(data, at)) continue;
      [cell[found], row[found++]] = [own, at];
      jobs[own] += count[at];
    }
    for (let own = begin; own < next; own++) {
      const home = table.home[own];
      cellOf[home] = -1;
      const placed = !homes.externalZones.has(home) && !works.externalZones.has(work);
      if (jobs[own] === 0 && placed) [cell[found], row[found++]] = [own, -1];
    }
  }
  const places = (at) => {
    const [home, work] = row[at] < 0 ? [table.home[cell[at]], table.work[cell[at]]] : [data.home[row[at]], data.work[row[at]]];
    const [from, to] = row[at] < 0 ? [homes, works] : [data.finest, data.finest];
    return [from.latitude[home], from.longitude[home], to.latitude[work], to.longitude[work], row[at] < 0 ? homes === works && home === work : home === work];
  };
  const far = new Float32Array(found);
  for (let at = 0; at < found; at++) far[at] = row[at] < 0 ? distanceKm(...places(at)) : kmOf[row[at]];
  const order = orderBy(far.map(stepOf));
  const parts = {
    table,
    cell: order.map((at) => cell[at]),
    km: Float32Array.from(order, (at) => far[at]),
    part: Float64Array.from(order, (at) => (row[at] < 0 ? 1 : count[row[at]] / jobs[cell[at]])),
    atWork: new Uint8Array(found),
    atHome: new Uint8Array(found),
  };
  order.forEach((at, i) => {
    const [y1, x1, y2, x2, same] = places(at);
    const still = same ? SAME_PLACE : ONE_CENTROID;
    parts.atWork[i] = far[at] === 0 ? still : directionOf(y2, x2, y1, x1);
    parts.atHome[i] = far[at] === 0 ? still : directionOf(y1, x1, y2, x2);
  });
  return (data.draws.parts = parts);
}
