// Many flows as fewer lines: ends that are near each other on the screen are one.

const NEAR = 72; // pixels: cells of a grid over the map
const MOST_TOGETHER = 300; // lines

/**
 * Flows between cells of a grid, largest first: {flows: as of `flowsOf`, whose ends are numbers of cells, cells, near: jobs
 * between ends of one cell}.
 *
 * A cell is {place: the middle of its ends, weighted by their jobs, unit: the one with most, n: how many}. External zones
 * are cells of their own.
 */
function clusteredFlows(flows, level, zoom) {
  const size = NEAR / (512 * 2 ** zoom); // of a cell; the world is 1 wide
  const [cells, numbers, cellOf] = [[], new Map(), new Int32Array(level.codes.length).fill(-1)];
  const at = (unit) => {
    if (cellOf[unit] >= 0) return cellOf[unit];
    const [x, y] = placeOf(level, unit);
    const sine = Math.sin(y * RADIANS);
    const mercator = [(x + 180) / 360, 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI)];
    const key = level.externalZones.has(unit) ? `zone ${unit}` : mercator.map((along) => Math.floor(along / size)).join();
    if (!numbers.has(key)) {
      numbers.set(key, cells.length);
      cells.push({ units: new Map() });
    }
    return (cellOf[unit] = numbers.get(key));
  };
  const sums = new Map();
  let near = 0;
  for (const { home, work, jobs } of flows) {
    const ends = [home, work].map((unit) => {
      if (unit === null) return null;
      const { units } = cells[at(unit)];
      units.set(unit, (units.get(unit) ?? 0) + jobs);
      return at(unit);
    });
    if (ends[0] === ends[1]) near += jobs;
    else {
      const key = ends.join();
      const sum = sums.get(key) ?? { home: ends[0], work: ends[1], jobs: 0, n: 0 };
      sum.jobs += jobs;
      sum.n += 1;
      sums.set(key, sum);
    }
  }
  for (const cell of cells) {
    const [all, n] = [[...cell.units], cell.units.size];
    const jobs = all.reduce((sum, [, own]) => sum + own, 0);
    const mean = (values) => all.reduce((sum, [unit, own]) => sum + own * values[unit], 0) / jobs;
    const [unit] = all.reduce((most, each) => (each[1] > most[1] ? each : most));
    Object.assign(cell, { place: [mean(level.longitude), mean(level.latitude)], unit, n });
  }
  return { flows: [...sums.values()].sort((a, b) => b.jobs - a.jobs), cells, near };
}
