// Elements of the page, made and found.

const byId = (id) => document.getElementById(id);

/** An element with words in it; never markup, so that a code or a name cannot become any. */
function text(name, words, className = "") {
  const element = document.createElement(name);
  element.textContent = words;
  if (className) element.className = className;
  return element;
}

function tableRow(name, cells) {
  const row = document.createElement("tr");
  row.append(...cells.map((cell) => text(name, cell)));
  return row;
}
