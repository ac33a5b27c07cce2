// What the page's data elements hold, as typed arrays. Compressed by gzip and written as base64, because an HTML
// file is text; the browser itself undoes both.

async function unpack(page, id) {
  const text = page.getElementById(id).textContent.trim();
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).arrayBuffer();
}

/** The arrays of a data element, by name. */
function arraysOf(packed, where) {
  return (name) => {
    const [type, offset, length] = where[name];
    return new ARRAY_TYPES[type](packed, offset, length);
  };
}

const ARRAY_TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int32: Int32Array };

/** The data of a page: this one, or that of another map. */
async function readData(page = document) {
  const meta = JSON.parse(page.getElementById("meta").textContent);
  const [packed, texts] = await Promise.all([unpack(page, "arrays"), unpack(page, "texts")]);
  const { codes, names, shapes, backdrop } = JSON.parse(new TextDecoder().decode(texts));
  const array = arraysOf(packed, meta.arrays);
  const degrees = (name) => Float64Array.from(array(name), (whole) => whole / meta.degree);

  const finest = meta.levels.at(-1).id;
  const nFinest = codes[finest].length;
  const externalZones = new Map(meta.external_zones.map((zone) => [zone.unit, zone]));
  const levels = meta.levels.map((level) => {
    const starts = array(`starts:${level.id}`);
    // Unit of this level that each unit of the finest level lies in.
    const unitOf = new Int32Array(nFinest);
    starts.forEach((start, unit) => unitOf.fill(unit, start, starts[unit + 1] ?? nFinest));
    return {
      ...level,
      codes: codes[level.id],
      names: names[level.id] ?? [], // of the units that have one
      shapes: shapes[level.id] ?? null,
      // Square kilometres of each unit, where there are polygons.
      area: meta.arrays[`area:${level.id}`] ? Float64Array.from(array(`area:${level.id}`), (n) => n / 1000) : null,
      starts,
      unitOf,
      latitude: degrees(`latitude:${level.id}`),
      longitude: degrees(`longitude:${level.id}`),
      // An external zone is one unit at every level. Its place is on a ring around the region.
      externalZones: new Map(Array.from(externalZones, ([unit, zone]) => [unitOf[unit], zone])),
    };
  });

  // Areas that cut across the levels; each holds whole finest areas of the page.
  const layers = meta.layers.map((layer) => ({
    ...layer,
    codes: codes[layer.id],
    names: names[layer.id] ?? [],
    areaOf: array(`area_of:${layer.id}`), // -1: in none
    externalZones: new Map(),
  }));

  // Rows are sorted by workplace: those of finest unit u are firstRow[u] up to firstRow[u + 1].
  const rowsOfWork = array("rows_of_work");
  const firstRow = new Uint32Array(nFinest + 1);
  rowsOfWork.forEach((n, unit) => (firstRow[unit + 1] = firstRow[unit] + n));
  const home = array("home");
  const work = new Uint32Array(home.length);
  for (let unit = 0; unit < nFinest; unit++) work.fill(unit, firstRow[unit], firstRow[unit + 1]);
  const isExternal = new Uint8Array(nFinest);
  externalZones.forEach((_, unit) => (isExternal[unit] = 1));

  const [counts, meanings] = [{}, {}];
  for (const { id, words } of meta.counts.flatMap(({ columns }) => columns)) {
    counts[id] = array(`count:${id}`);
    meanings[id] = words;
  }
  const draws = meta.draws ? new Draws(levels, meta.draws, arraysOf(await unpack(page, "draws"), meta.draws.arrays)) : null;
  return { meta, meanings, levels, layers, backdrop, finest: levels.at(-1), nFinest, firstRow, work, home, counts, externalZones, isExternal, draws };
}
