// Many flows as fewer lines: ends that are near each other on the screen are one.

import { onSquare, placeOf } from "./places.js";

const NEAR = 72; // pixels: cells of a grid over the map
export const MOST_TOGETHER = 300; // lines

/**
 * `Flows` between cells of a grid, largest first: {flows: [{home, work, jobs, n: how many they are}], whose ends are numbers of cells,
 * cells, near: jobs between ends of one cell}.
 *
 * A cell is {place: the middle of its ends, weighted by their jobs, unit: the one with most, n: how many}. External zones
 * are cells of their own.
 */
export function clusteredFlows(flows, level, zoom) {
  const size = NEAR / (512 * 2 ** zoom); // of a cell; the world is 1 wide
  const units = level.codes.length;
  const [numbers, cellOf, jobsOf] = [new Map(), new Int32Array(units).fill(-1), new Float64Array(units)];
  const numberOf = (unit) => {
    const cell = () => onSquare(placeOf(level, unit)).map((along) => Math.floor(along / size)).join();
    const key = level.externalZones.has(unit) ? `zone ${unit}` : cell();
    if (!numbers.has(key)) numbers.set(key, numbers.size);
    return numbers.get(key);
  };
  const at = (unit, jobs) => {
    if (unit < 0) return -1;
    jobsOf[unit] += jobs;
    return cellOf[unit] < 0 ? (cellOf[unit] = numberOf(unit)) : cellOf[unit];
  };
  const sums = new Map();
  const end = (cell) => (cell < 0 ? null : cell);
  let near = 0;
  for (let i = 0; i < flows.length; i++) {
    const jobs = flows.jobs[i];
    const [home, work] = [at(flows.home[i], jobs), at(flows.work[i], jobs)];
    const key = (home + 1) * (units + 1) + work + 1;
    const sum = sums.get(key);
    if (home === work) near += jobs;
    else if (!sum) sums.set(key, { home: end(home), work: end(work), jobs, n: 1 });
    else [sum.jobs, sum.n] = [sum.jobs + jobs, sum.n + 1];
  }
  const cells = Array.from(numbers, () => ({ place: [0, 0], jobs: 0, unit: -1, n: 0 }));
  cellOf.forEach((number, unit) => {
    if (number < 0) return;
    const [cell, jobs] = [cells[number], jobsOf[unit]];
    cell.place = cell.place.map((sum, axis) => sum + jobs * placeOf(level, unit)[axis]);
    if (cell.unit < 0 || jobs > jobsOf[cell.unit]) cell.unit = unit;
    cell.jobs += jobs;
    cell.n += 1;
  });
  for (const cell of cells) cell.place = cell.place.map((sum) => sum / cell.jobs);
  return { flows: [...sums.values()].sort((a, b) => b.jobs - a.jobs), cells, near };
}
