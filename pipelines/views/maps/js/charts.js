// Rose diagram and histogram, as SVG; the table beside them says the same in numbers.

import { tableRow, text } from "./dom.js";
import { DIRECTIONS, DISTANCES } from "./flows.js";
import { say } from "./phrases.js";
import { RADIANS } from "./places.js";
import { between, numberWith, oneDecimal, share } from "./scale.js";

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, ...children) {
  const element = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
  element.append(...children);
  return element;
}

function distanceWords(i, unit) {
  if (i === 0) return say("distance_first", { far: DISTANCES[0], unit });
  if (i === DISTANCES.length) return say("distance_last", { near: DISTANCES[i - 1], unit });
  return `${DISTANCES[i - 1]}–${DISTANCES[i]} ${unit}`;
}

const directionWords = (direction) => say("direction", { which: DIRECTIONS[direction] });

/** A ring sector between two radii, of one eighth of a circle around a direction. */
function sector(direction, inner, outer) {
  const point = (radius, degrees) => {
    const angle = (degrees - 90) * RADIANS;
    return `${(radius * Math.cos(angle)).toFixed(2)} ${(radius * Math.sin(angle)).toFixed(2)}`;
  };
  const [from, to] = [direction * 45 - 20, direction * 45 + 20];
  return (
    `M ${point(inner, from)} L ${point(outer, from)} A ${outer} ${outer} 0 0 1 ${point(outer, to)} ` +
    `L ${point(inner, to)} A ${inner} ${inner} 0 0 0 ${point(inner, from)} Z`
  );
}

/** The rose diagram: a sector's area is its share of the jobs, its colours are distances. */
export function drawRose(host, found) {
  const radius = 80;
  const sums = found.rose.map((jobs) => jobs.reduce((a, b) => a + b, 0));
  const largest = Math.max(...sums, 1);
  const reach = (jobs) => radius * Math.sqrt(jobs / largest);
  const parts = [0.5, 1].map((part) => svg("circle", { r: radius * Math.sqrt(part), class: "ring" }));
  found.rose.forEach((jobs, direction) => {
    let below = 0;
    jobs.forEach((n, distance) => {
      if (n > 0) {
        const path = sector(direction, reach(below), reach(below + n));
        parts.push(svg("path", { d: path, class: `distance-${distance}` }));
      }
      below += n;
    });
    const at = (direction * 45 - 90) * RADIANS;
    const place = { x: (radius + 13) * Math.cos(at), y: (radius + 13) * Math.sin(at) + 4 };
    parts.push(svg("text", place, document.createTextNode(directionWords(direction))));
  });
  const most = Math.max(...sums);
  const best = DIRECTIONS.flatMap((_, direction) => (sums[direction] === most ? [directionWords(direction)] : [])).join(say("and"));
  const words = most ? say("rose", { directions: best, share: share(most, found.placed) }) : say("rose_of_nobody");
  host.replaceChildren(svg("svg", { viewBox: "-105 -105 210 210", role: "img", "aria-label": words }, ...parts));
}

/** Jobs by distance, one bar a class; its colours are the legend of the rose diagram. */
export function drawDistances(host, found, unit, ends) {
  const largest = Math.max(...found.classes, 1);
  host.replaceChildren(
    ...Array.from(found.classes, (jobs, i) => bar(distanceWords(i, unit), jobs, largest, found.placed, `distance-${i}`, ends?.[i])),
  );
}

/** A number as a bar: as long as it is beside the largest, with its share of all, and the interval of that if it has one. */
export function bar(words, jobs, largest, all, className, ends = null) {
  const row = document.createElement("div");
  row.className = "bar";
  const drawn = svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  drawn.append(svg("rect", { width: largest > 0 ? (100 * jobs) / largest : 0, height: 10, class: className }));
  row.append(text("span", words), drawn, text("span", share(jobs, all) + (ends ? ` (${between(ends, (end) => oneDecimal.format(100 * end))})` : "")));
  return row;
}

/** The numbers of both charts, with their intervals where these are known. */
export function fillRoseTable(table, found, unit, ends) {
  const head = [say("directions"), ...Array.from(found.classes, (_, i) => distanceWords(i, unit))];
  const rows = found.rose.map((jobs, i) => {
    const row = tableRow("td", [directionWords(i), ...Array.from(jobs, () => "")]);
    jobs.forEach((n, at) => row.children[1 + at].append(...numberWith(n, ends?.[i][at])));
    return row;
  });
  table.replaceChildren(tableRow("th", head), ...rows);
}
