// Posterior draws of what the true numbers may be, by home and work. Whatever is a sum of their cells has a value in each
// draw; its interval goes between two of these values, in their order. Jobs by place of work are public totals, which all
// draws have: their intervals would be single numbers.

class Draws {
  constructor(levels, { n, low, high, tables }, array) {
    Object.assign(this, { levels, n, low, high });
    const levelOf = (id) => levels.find((level) => level.id === id) ?? null;
    this.tables = tables.map((table, at) => {
      const [home, counts, work] = [array(`home:${at}`), array(`counts:${at}`), new Uint32Array(array(`home:${at}`).length)];
      let cell = 0;
      array(`rows:${at}`).forEach((size, unit) => work.fill(unit, cell, (cell += size)));
      return { column: table.column, homes: levelOf(table.home), works: levelOf(table.work), home, work, counts };
    });
  }

  /** The first table that has whatever is said of homes and of workplaces, each a level or a selection; null where none has. */
  table(column, homes, works) {
    const fits = (level, asked) =>
      asked.every((one) =>
        level && (one instanceof Selection ? one.cover(level).whole : this.levels.indexOf(one) <= this.levels.indexOf(level)),
      );
    return this.tables.find((table) => table.column === column && fits(table.homes, homes) && fits(table.works, works)) ?? null;
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

  /** The ends of the interval of a number, from its values in all draws. */
  ends(values) {
    const sorted = Float64Array.from(values).sort();
    return [sorted[this.low], sorted[this.high]];
  }
}

/** Number by number of two lists. */
const added = (a, b) => a.map((value, at) => value + b[at]);
/** The unit of a coarser level, or the same, that each unit of a level is in. */
const unitsIn = (level, coarser) => Int32Array.from(level.starts, (start) => coarser.unitOf[start]);

/** Intervals of who comes to a selection, stays, leaves, lives in it, and of all of them; null where draws do not tell. */
function balanceIntervals(data, selection, column) {
  const { draws } = data;
  const none = { come: null, stay: null, leave: null, live: null, all: null };
  if (!draws) return none;
  const table = draws.table(column, [selection], [selection]);
  if (table) {
    const [from, to] = [selection.cover(table.homes).over, selection.cover(table.works).over];
    const groups = [-1, 0, 1, 2]; // by whether home and work are in it
    const [come, leave, stay] = draws.sums(table, 3, (home, work) => groups[2 * from[home] + to[work]]);
    const live = added(stay, leave);
    const all = { come, stay, leave, live, all: added(come, live) };
    return Object.fromEntries(Object.entries(all).map(([name, values]) => [name, draws.ends(values)]));
  }
  const residents = draws.table(column, [selection], []);
  if (!residents) return none;
  const { over } = selection.cover(residents.homes);
  const [live] = draws.sums(residents, 1, (home) => over[home] - 1);
  return { ...none, live: draws.ends(live) };
}

/**
 * Intervals of what the map colours, by unit of a level: {values: unit -> ends}, with side "both" {come, leave} of them;
 * {} where draws do not tell.
 */
function partnerIntervals(data, side, selection, level, column) {
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
  if (side === "both") return { come: (unit) => draws.ends(sums[unit]), leave: (unit) => draws.ends(sums[n + unit]) };
  return { values: (unit) => draws.ends(sums[unit]) };
}

/** Intervals of those of an external zone, a unit of the coarsest level, who are in the totals of a state: unit -> ends or null. */
function zoneIntervals(data, { side, selection, column }) {
  const [level] = data.levels;
  const residents = partnerIntervals(data, "home", null, level, column).values;
  if (!selection) return (unit) => residents?.(unit) ?? null;
  const { over } = selection.cover(level);
  const workers = side === "home" ? null : partnerIntervals(data, "work", selection, level, column).values;
  // Of a zone that is chosen, all; of another one those who work in the choice.
  return (unit) => (side !== "work" && over[unit] ? residents : workers)?.(unit) ?? null;
}

/** Intervals of flows between units of a level, in their order; null where draws do not tell. */
function flowIntervals(data, level, column, flows) {
  const table = data.draws?.table(column, [level], [level]);
  if (!table) return null;
  const units = unitsIn(table.homes, level);
  const at = new Map(flows.map(({ home, work }, i) => [work * level.codes.length + home, i]));
  const groupOf = (home, work) => at.get(units[work] * level.codes.length + units[home]) ?? -1;
  return data.draws.sums(table, flows.length, groupOf).map((values) => data.draws.ends(values));
}

/** Intervals of shares of the residents, or commuters, of a selection: {column: ends}; of workers they are exact. */
function shareIntervals(data, side, selection) {
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
    columns.forEach(({ id }, at) => (found[id] = draws.ends(sums[at].map((jobs, draw) => (all[draw] ? jobs / all[draw] : 0)))));
  }
  return found;
}

/**
 * The interval of the mean commute in km, {ends, level}: with the mean distance of the released jobs between two units of
 * the level of the draws or, where there are none, that of their centroids. Null where draws do not tell.
 */
function meanInterval(data, side, selection, column) {
  const { draws, isExternal } = data;
  const own = selection ? [selection] : [];
  const [home, work] = { work: [[], own], home: [own, []], both: [own, own] }[side];
  const table = draws?.table(column, home, [data.levels[0], ...work]); // of homes and workplaces
  if (!table) return null;
  const { homes, works } = table;
  table.km ??= kmOfCells(data, table);
  const [from, to] = [homes, works].map((level) => selection?.cover(level).over);
  const counts = (a, b) => !selection || (side !== "home" && to[b]) || (side !== "work" && from[a]);
  const [jobs, km] = [new Float64Array(draws.n), new Float64Array(draws.n)];
  for (let cell = 0; cell < table.home.length; cell++) {
    if (isExternal[homes.starts[table.home[cell]]] || !counts(table.home[cell], table.work[cell])) continue;
    for (let draw = 0, at = cell * draws.n; draw < draws.n; draw++, at++) {
      jobs[draw] += table.counts[at];
      km[draw] += table.counts[at] * table.km[cell];
    }
  }
  return jobs.includes(0) ? null : { ends: draws.ends(km.map((sum, draw) => sum / jobs[draw])), level: homes };
}

/** How far home and work of the jobs of each cell are from each other, in km. */
function kmOfCells(data, { home, work, homes, works, column }) {
  const [count, km] = [data.counts[column], kmOfRows(data)];
  const [jobs, sums] = [new Float64Array(homes.codes.length), new Float64Array(homes.codes.length)];
  let [known, cell] = [-1, 0];
  return Float64Array.from(home, (unit) => {
    const to = work[cell++];
    if (to !== known) {
      jobs.fill(0);
      sums.fill(0);
      const [first, end] = rangeOf(works, (known = to));
      for (let row = data.firstRow[first]; row < data.firstRow[end]; row++) {
        const from = homes.unitOf[data.home[row]];
        jobs[from] += count[row];
        sums[from] += count[row] * km[row];
      }
    }
    const between = () => distanceKm(homes.latitude[unit], homes.longitude[unit], works.latitude[to], works.longitude[to]);
    return jobs[unit] > 0 ? sums[unit] / jobs[unit] : between();
  });
}
