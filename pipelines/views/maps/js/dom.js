// Elements of the page, made and found.

/** @type {(id: string) => any} What an element has beside others, only who asks for it knows. */
export const byId = (id) => document.getElementById(id);

/**
 * An element with words in it; never markup, so that a code or a name cannot become any.
 * @returns {any}
 */
export function text(name, words, className = "") {
  const element = document.createElement(name);
  element.textContent = words;
  if (className) element.className = className;
  return element;
}

/** Whether a click adds to what is chosen, or takes away from it. */
export const wantsMore = (event) => event.shiftKey || event.ctrlKey || event.metaKey || byId("add").checked;

export function tableRow(name, cells) {
  const row = document.createElement("tr");
  row.append(...cells.map((cell) => text(name, cell)));
  return row;
}
