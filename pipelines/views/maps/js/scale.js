// Numbers and classes as a reader sees them.

import { text } from "./dom.js";
import { numberFormat, say, whole } from "./phrases.js";

export const UNITS = { km: { id: "km", km: 1 }, mi: { id: "mi", km: 1.609344 } };

// Where the classes are cut, as parts of the areas. The few largest ones get a class of their own.
const CUTS = [0.2, 0.4, 0.6, 0.8, 0.95];

const LINE_WIDTHS = [0.7, 6]; // of the smallest conceivable flow and of the largest

export const oneDecimal = numberFormat({ minimumFractionDigits: 1, maximumFractionDigits: 1 });
export const twoDecimals = numberFormat({ minimumFractionDigits: 2, maximumFractionDigits: 2 });

/** A part of one, without its sign. */
export const percent = (part) => (part > 0 && part < 0.001 ? `<${oneDecimal.format(0.1)}` : oneDecimal.format(100 * part));
export const share = (part, all) => `${percent(all > 0 ? part / all : 0)}\u00a0%`;

/**
 * Upper ends of the classes but the last: at CUTS, rounded down, so that every class has a value.
 *
 * Counts of jobs are spread too unevenly for classes of equal width.
 */
export function classBreaks(values, smallestUnit = 1) {
  const sorted = Float64Array.from(values).filter((value) => value > 0).sort();
  const breaks = [];
  for (const cut of CUTS) {
    const value = sorted[Math.floor(cut * sorted.length)];
    if (value === undefined) break;
    const unit = Math.max(smallestUnit, 10 ** (Math.floor(Math.log10(value)) - 1));
    const round = Math.floor(value / unit) * unit;
    if (round > (breaks.at(-1) ?? sorted[0])) breaks.push(round);
  }
  return breaks;
}

/** Whether areas of a level, without the largest and the smallest tenth, differ more than tenfold in size. */
export function isUneven({ area }) {
  const sorted = Float64Array.from(area.filter((size) => size > 0)).sort();
  const at = (part) => sorted[Math.floor(part * (sorted.length - 1))];
  return at(0.9) > 10 * at(0.1);
}

/** The largest value of an area that is on the map. */
export function largestInside(level, values) {
  return values.reduce((most, value, unit) => (level.externalZones.has(unit) ? most : Math.max(most, value)), 0);
}

/** Class of a value: -1 for nothing, else 0 .. breaks.length. */
export function classOf(value, breaks) {
  if (value <= 0) return -1;
  const found = breaks.findIndex((end) => value < end);
  return found < 0 ? breaks.length : found;
}

/** Words of whole numbers from one to another; of years that have the same classes, the last has no end: Infinity. */
function rangeWords(start, end) {
  if (end === Infinity) return `${whole.format(start)}+`;
  return end === start ? whole.format(start) : `${whole.format(start)}–${whole.format(end)}`;
}

/** Words of each class of numbers of jobs, lowest first; none where all values are 0. */
export function classWords(breaks, largest) {
  const starts = largest > 0 ? [1, ...breaks] : [];
  return starts.map((start, i) => rangeWords(start, i < breaks.length ? breaks[i] - 1 : largest));
}

/** The same of densities, whose classes have their ends in common. The last end is rounded up: it holds the largest. */
export function densityWords(breaks, largest) {
  const number = numberFormat({ maximumSignificantDigits: 2 });
  const unit = 10 ** (Math.floor(Math.log10(largest)) - 1);
  const ends = largest > 0 ? [...breaks, largest === Infinity ? Infinity : Math.ceil(largest / unit) * unit] : [];
  return ends.map((end, i) => {
    if (end === Infinity) return `${number.format(ends[i - 1] ?? 0)}+`;
    return i ? `${number.format(ends[i - 1])}–${number.format(end)}` : say("up_to", { end: number.format(end) });
  });
}

/** The page's colours are in its style sheet, once, for both themes. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Colours of n classes, spread over the whole ramp. */
export function rampColours(n) {
  const last = CUTS.length;
  return Array.from({ length: n }, (_, i) => colour(`ramp-${n === 1 ? last : Math.round((i * last) / (n - 1))}`));
}

// Differences: one colour for more here, one for more there, the stronger the more.
const MORE = ["more-0", "more-1", "more-2"];
const LESS = ["less-0", "less-1", "less-2"];

/** Upper ends of the classes of differences but the last, of either sign. */
export const differenceBreaks = (values) => {
  const breaks = classBreaks(values.map(Math.abs));
  return [breaks[1], breaks[3]].filter((end, at, all) => end !== undefined && end !== all[at - 1]);
};

/** The colour of a difference, which may be within noise. */
export function differenceColour(value, breaks, within = false) {
  if (within) return colour("within");
  if (value === 0) return colour("land");
  return colour((value > 0 ? MORE : LESS)[Math.max(0, classOf(Math.abs(value), breaks))]);
}

/**
 * [a value, words] of each class that has an area, from the most that is less to the most that is more; of a change, of each class,
 * as years have the same.
 */
export function differenceWords(breaks, values, change) {
  const more = (range) => (change ? say("more", { range }) : say("more_here", { range }));
  const fewer = (range) => (change ? say("fewer", { range }) : say("fewer_here", { range }));
  return [-1, 1].flatMap((sign) => {
    const own = values.filter((value) => value * sign > 0).map(Math.abs);
    const largest = change ? Infinity : own.reduce((most, value) => Math.max(most, value), 0);
    const starts = [1, ...breaks].filter((start) => start <= largest);
    const words = starts.map((start, i) => {
      const range = rangeWords(start, i < starts.length - 1 ? starts[i + 1] - 1 : largest);
      return [sign * start, sign > 0 ? more(range) : fewer(range)];
    });
    return sign > 0 ? words : words.reverse();
  });
}

/** Width in pixels of the line of a flow, by its share of the largest. */
export const lineWidth = (share) => LINE_WIDTHS[0] + (LINE_WIDTHS[1] - LINE_WIDTHS[0]) * share;

// Sliders move evenly through orders of magnitude: position 0 is 1, position 100 the largest flow.
export const fromSlider = (position, largest) => Math.max(1, Math.round(largest ** (position / 100)));
export const toSlider = (value, largest) => (largest > 1 ? (100 * Math.log(value)) / Math.log(largest) : 0);

/** A number, and below it its interval where it has one. */
export const numberWith = (number, ends) => [whole.format(number), ...(ends ? [text("span", intervalWords(ends), "code")] : [])];

/** Both ends of an interval, written by `format`. */
export const between = ([low, high], format = whole.format) => say("interval", { low: format(low), high: format(high) });

export const intervalWords = (ends) => (ends ? between(ends) : "");

export const bracketed = (ends) => (ends ? ` (${intervalWords(ends)})` : "");
