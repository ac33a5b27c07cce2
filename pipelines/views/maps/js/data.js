// What the page's data elements hold, as typed arrays. Compressed by gzip, and written as base64 because an HTML file
// is text; of a map on a site what is large lies in files beside the page. The browser itself undoes both.

import { byId } from "./dom.js";
import { Draws } from "./draws.js";
import { numberFormat, say } from "./phrases.js";

export const EVERYBODY = "S000"; // the column that counts all jobs

/** External zones by unit of a level; those whose codes are one there are one. */
function zonesBy(zones, unitOf) {
  const found = new Map();
  for (const { unit, name, code, main } of zones) {
    const other = found.get(unitOf(unit));
    const both = other && { name: `${other.name}, ${name}`, code: `${other.code}, ${code}`, main: other.main || main };
    found.set(unitOf(unit), both ?? { name, code, main });
  }
  return found;
}

const PIECE = 1 << 20; // characters at once: a multiple of 4, as base64 goes

/** Why a file beside the page is not there whole; the message is for the reader. */
export class FetchError extends Error {}

/** How many bytes an element holds, or the file that it names. */
export const sizeOf = (element) => Number(element.dataset.bytes ?? Math.floor((element.textContent.length * 3) / 4));
export const wholeSize = () => sizeOf(byId("whole-arrays")) + sizeOf(byId("whole-texts"));
export const isBeside = (element) => "address" in element.dataset;

/** The bytes in an element, piece by piece. */
function bytesIn(text, pause) {
  let at = 0;
  return new ReadableStream({
    async pull(controller) {
      if (at >= text.length) return controller.close();
      const piece = atob(text.slice(at, at + PIECE));
      const bytes = new Uint8Array(piece.length);
      for (let i = 0; i < piece.length; i++) bytes[i] = piece.charCodeAt(i);
      controller.enqueue(bytes);
      at += PIECE;
      await pause?.();
    },
  });
}

/** Ends a download of which nothing comes for a minute. */
class Patience extends AbortController {
  #timer = null;

  constructor() {
    super();
    this.#wait();
  }

  #wait() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.abort(), 60_000);
  }

  /** A stream through which the download goes. */
  watch() {
    const transform = (bytes, controller) => {
      this.#wait();
      controller.enqueue(bytes);
    };
    return new TransformStream({ transform });
  }

  end() {
    clearTimeout(this.#timer);
  }
}

/** What an element holds, unpacked; `tell` hears how many of its bytes have been read. */
export async function unpack(page, id, tell) {
  const element = page.getElementById(id);
  let read = 0;
  const heard = new TransformStream({
    transform(bytes, controller) {
      tell?.((read += bytes.length));
      controller.enqueue(bytes);
    },
  });
  const whole = (bytes) => new Response(bytes.pipeThrough(heard).pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  if (!isBeside(element)) {
    const drawn = () => new Promise((done) => setTimeout(done)); // the page draws in between
    return whole(bytesIn(element.textContent, tell && drawn));
  }
  const patience = new Patience();
  let answer;
  try {
    answer = await fetch(element.dataset.address, { signal: patience.signal });
    if (answer.ok) return await whole(answer.body.pipeThrough(patience.watch()));
  } catch {
    // What was cut ends too early for gzip, whatever the connection said.
  } finally {
    patience.end();
  }
  if (patience.signal.aborted) throw new FetchError(say("nothing_came", { megabytes: megabytes(read, sizeOf(element)) }));
  if (!answer) throw new FetchError(say("no_answer"));
  if (!answer.ok) throw new FetchError(say("answered", { status: String(answer.status) }));
  const all = sizeOf(element);
  throw new FetchError(read < all ? say("came", { megabytes: megabytes(read, all) }) : say("came_wrong"));
}

const oneDecimal = numberFormat({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const inMegabytes = (bytes) => oneDecimal.format(bytes / 1e6);
export const megabytes = (n, of) => say("megabytes", { read: inMegabytes(n), all: inMegabytes(of) });

const readTexts = async (page, id, tell) => JSON.parse(new TextDecoder().decode(await unpack(page, id, tell)));

/** Water and roads; nothing where the page has none. */
export const readBackdrop = async () => (byId("backdrop-shapes") ? readTexts(document, "backdrop-shapes") : {});

/** The arrays of a data element, by name. */
function arraysOf(packed, where) {
  return (name) => {
    const [type, offset, length] = where[name];
    return new ARRAY_TYPES[type](packed, offset, length);
  };
}

const ARRAY_TYPES = { float32: Float32Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, int32: Int32Array };

/**
 * The data of a page: this one, or that of another map, or an element of a page that holds another year of `own`, whose areas it
 * shares. Of a large release a page opens with levels that are soon read; `whole` asks for all of them, and `tell` hears how many
 * bytes of these have been read. Draws of this page that are large come later (`setDraws`).
 * @param {any} page
 */
export async function readData(page = document, whole = false, tell = null, own = null) {
  const prefix = whole && page.getElementById("whole-meta") ? "whole-" : "";
  const element = (name) => page.getElementById(prefix + name);
  const meta = { ...own?.meta, draws: null, ...JSON.parse(element("meta").textContent) };
  const packed = await unpack(page, `${prefix}arrays`, tell);
  const array = arraysOf(packed, meta.arrays);
  const heard = tell && ((n) => tell(sizeOf(element("arrays")) + n));
  const areas = own ? own.areas : areasOf(meta, array, await readTexts(page, `${prefix}texts`, heard));

  const finest = meta.levels.at(-1).id;
  const nFinest = areas[finest].codes.length;
  const externalZones = zonesBy(meta.external_zones, (unit) => unit);
  const levels = meta.levels.map((level) => {
    const starts = array(`starts:${level.id}`);
    // Unit of this level that each unit of the finest level lies in.
    const unitOf = new Int32Array(nFinest);
    starts.forEach((start, unit) => unitOf.fill(unit, start, starts[unit + 1] ?? nFinest));
    const zones = zonesBy(meta.external_zones, (unit) => unitOf[unit]);
    return {
      ...level,
      ...areas[level.id],
      starts,
      unitOf,
      // An external zone is one unit at every level. Its place is on a ring around the region.
      externalZones: zones,
      // Those with fewest jobs have one place; lines to them are of the first of them.
      elsewhere: [...zones.keys()].filter((unit) => !zones.get(unit).main),
    };
  });

  // Areas that cut across the levels; each holds whole finest areas of the page.
  const layers = meta.layers.map((layer) => ({
    ...layer,
    ...areas[layer.id],
    areaOf: array(`area_of:${layer.id}`), // -1: in none
    externalZones: new Map(),
    elsewhere: [],
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
  const zonesOfWork = Array.from(externalZones).filter(([unit]) => rowsOfWork[unit] > 0).map(([, { name }]) => name);

  const [counts, meanings] = [{}, {}];
  for (const { id, words } of meta.counts.flatMap(({ columns }) => columns)) {
    counts[id] = array(`count:${id}`);
    meanings[id] = words;
  }
  const data = { meta, meanings, areas, levels, layers, finest: levels.at(-1), nFinest, firstRow, work, home, counts, externalZones, zonesOfWork, isExternal, draws: null, apart: null, unbiased: null, unbiasedApart: null };
  if (meta.draws && (!meta.draws.later || page !== document)) setDraws(data, await unpack(page, "draws"));
  return data;
}

/** Whether two releases count the same jobs in a column: it is one of the same categories. */
export function countAlike(data, other, column) {
  const [one, two] = [data, other].map(({ meta }) => {
    const group = meta.counts.find(({ columns }) => columns.some(({ id }) => id === column));
    return group?.columns.map(({ id }) => id).join();
  });
  return one !== undefined && one === two;
}

/** What areas of levels, and of layers, are called, and where they are, by id. */
function areasOf({ levels, layers, arrays, degree }, array, { codes, names, shapes }) {
  const degrees = (name) => Float64Array.from(array(name), (whole) => whole / degree);
  const named = ({ id }) => ({
    codes: codes[id],
    names: names[id] ?? [], // of the units that have one
    shapes: shapes[id] ?? null, // of layers, drawn around centroids
  });
  const placed = (level) => ({
    ...named(level),
    // Square kilometres of each unit, where there are polygons.
    area: arrays[`area:${level.id}`] ? Float64Array.from(array(`area:${level.id}`), (n) => n / 1000) : null,
    latitude: degrees(`latitude:${level.id}`),
    longitude: degrees(`longitude:${level.id}`),
  });
  return Object.fromEntries([...levels.map((level) => [level.id, placed(level)]), ...layers.map((layer) => [layer.id, named(layer)])]);
}

/** Draws of fewer levels are draws of more. */
export function setDraws(data, packed) {
  const { levels, meta } = data;
  const of = (kind) => new Draws(levels, meta.draws, arraysOf(packed, meta.draws.arrays), kind);
  data.packedDraws = packed;
  [data.draws, data.unbiased] = [{}, { unbiased: true }].map(of);
  const hasApart = meta.draws.tables.some(({ apart }) => apart);
  [data.apart, data.unbiasedApart] = hasApart ? [{ apart: true }, { apart: true, unbiased: true }].map(of) : [null, null];
}
