// What the page's data elements hold, as typed arrays. Compressed by gzip and written as base64, because an HTML
// file is text; the browser itself undoes both.

const PIECE = 1 << 20; // characters at once: a multiple of 4, as base64 goes

/** The bytes of an element, piece by piece; `tell` hears how many characters have been read. */
function bytesOf(text, tell) {
  let at = 0;
  return new ReadableStream({
    async pull(controller) {
      if (at >= text.length) return controller.close();
      const piece = atob(text.slice(at, at + PIECE));
      const bytes = new Uint8Array(piece.length);
      for (let i = 0; i < piece.length; i++) bytes[i] = piece.charCodeAt(i);
      controller.enqueue(bytes);
      at += PIECE;
      await tell?.(Math.min(at, text.length));
    },
  });
}

function unpack(page, id, tell) {
  const text = page.getElementById(id).textContent;
  return new Response(bytesOf(text, tell).pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

const readTexts = async (page, id, tell) => JSON.parse(new TextDecoder().decode(await unpack(page, id, tell)));

/** Water and roads; nothing where the page has none. */
const readBackdrop = async () => (byId("backdrop-shapes") ? readTexts(document, "backdrop-shapes") : {});

/** The arrays of a data element, by name. */
function arraysOf(packed, where) {
  return (name) => {
    const [type, offset, length] = where[name];
    return new ARRAY_TYPES[type](packed, offset, length);
  };
}

const ARRAY_TYPES = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int32: Int32Array };

/**
 * The data of a page: this one, or that of another map. Of a large release a page opens with levels that are soon read;
 * `whole` asks for all of them, and `tell` hears which part of these has been read.
 */
async function readData(page = document, whole = false, tell = null) {
  const prefix = whole && page.getElementById("whole-meta") ? "whole-" : "";
  const element = (name) => page.getElementById(prefix + name);
  const meta = JSON.parse(element("meta").textContent);
  const length = element("arrays").textContent.length + element("texts").textContent.length;
  const drawn = () => new Promise((done) => setTimeout(done)); // the page draws in between
  const packed = await unpack(page, `${prefix}arrays`, tell && ((n) => (tell(n / length), drawn())));
  const { codes, names, shapes } = await readTexts(page, `${prefix}texts`);
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
  return { meta, meanings, levels, layers, finest: levels.at(-1), nFinest, firstRow, work, home, counts, externalZones, isExternal, draws };
}
