// The page's words, in its language: those of templates/<language>/map.json, which the page has as data.

import { byId } from "./dom.js";

const { locale, ...phrases } = JSON.parse(byId("phrases").textContent);
const forms = new Intl.PluralRules(locale);

/** How numbers are written. */
export const numberFormat = (options) => new Intl.NumberFormat(locale, options);
export const whole = numberFormat({ maximumFractionDigits: 0 });

/**
 * A phrase with its values in place. Of one that has several forms, that which `which` names, or else that of the number `n`.
 * Numbers are written as whole ones; others come as text.
 */
export function say(name, values = {}) {
  const phrase = phrases[name];
  const words = typeof phrase === "string" ? phrase : phrase[values.which ?? forms.select(values.n)];
  return words.replace(/\{(\w+)\}/g, (_, key) => (typeof values[key] === "number" ? whole.format(values[key]) : values[key]));
}

/** Sentences, those left out that are none, one after another. */
export const sentences = (...all) => all.filter(Boolean).join(" ");
