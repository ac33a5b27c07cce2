// Choosing several areas: adding and removing, a drawn outline, a radius, a file; and what was chosen, as chips.

import { byId, text } from "./dom.js";
import { FileError, partOfFile } from "./geojson.js";
import { say } from "./phrases.js";
import { partKey, partName, partOfKey, unitsOf } from "./selection.js";

/** The buttons below the search field. `choose(part, add)` is called with what they find. */
export class Tools {
  #data;
  #view;
  #choose;
  #whole;
  #corners = null; // of the outline that is being drawn

  /** `whole` reads the levels that are not here yet, which outlines count. */
  constructor(data, view, choose, whole) {
    [this.#data, this.#view, this.#choose, this.#whole] = [data, view, choose, whole];
    byId("draw").addEventListener("click", () => (this.#corners ? this.#finish() : this.#draw()));
    byId("around-place").addEventListener("click", () => this.#aim());
    byId("drawing-cancel").addEventListener("click", () => this.stop());
    byId("around-chosen").addEventListener("click", () => this.#around(this.chosen.place));
    byId("file").addEventListener("change", () => this.#open(byId("file").files[0]));
    byId("drawing-tools").hidden = !view; // the others work without a map
    byId("around-place").hidden = !view;
    byId("which-inside").textContent = say("which_inside", { many: (data.meta.later.at(-1) ?? data.finest).many });
    document.addEventListener("keydown", (event) => {
      const busy = this.#corners || this.#view?.tool;
      if (event.key === "Escape" && busy) {
        event.stopImmediatePropagation(); // the chosen areas stay
        this.stop();
      }
      const isControl = /** @type {Element} */ (event.target).closest?.("button, input, select, summary");
      if (event.key === "Enter" && this.#corners?.length > 2 && !isControl) this.#finish();
    });
    view?.map.on("dblclick", () => this.#corners?.length > 2 && this.#finish());
  }

  setData(data) {
    this.#data = data;
  }

  /** Show what is chosen; each part can be taken away. */
  show(selection, remove) {
    this.chosen = selection;
    byId("around-chosen").disabled = !selection || selection.external;
    const chips = (selection?.parts ?? []).map((part, at) => {
      const item = text("li", partName(part));
      const button = text("button", "×");
      button.type = "button";
      button.ariaLabel = say("remove", { area: partName(part) });
      button.addEventListener("click", () => {
        remove(part);
        const others = [...byId("chips").querySelectorAll("button")];
        (others[Math.min(at, others.length - 1)] ?? byId("chosen")).focus();
      });
      item.append(button);
      return item;
    });
    byId("chips").replaceChildren(...chips);
    byId("chips").hidden = chips.length < 2;
  }

  /** Leave what was begun. */
  stop() {
    this.#corners = null;
    this.#view?.setTool(null);
    byId("drawing-cancel").hidden = true;
    byId("draw").textContent = say("draw");
    this.say("");
  }

  say(words, wrong = false) {
    byId("tool-words").textContent = words;
    byId("tool-words").classList.toggle("warning", wrong);
    byId("tool-words").hidden = !words;
  }

  #begin(words, tool) {
    this.stop();
    byId("drawing-cancel").hidden = false;
    this.say(words);
    this.#view.setTool(tool);
  }

  #draw() {
    this.#begin(say("draw_how"), (place) => {
      // The second click of a double click, which finishes, is at the same place.
      if (this.#corners.at(-1)?.join() !== place.join()) this.#corners.push(place);
      this.#view.showDrawing(this.#corners);
    });
    this.#corners = [];
    byId("draw").textContent = say("finish");
  }

  #finish() {
    const rings = [this.#corners];
    if (rings[0].length < 3) return this.say(say("three_corners"), true);
    this.stop();
    this.#take({ kind: "outline", rings });
  }

  #aim() {
    if (this.#radius()) this.#begin(say("aim_how"), (at) => this.#around(at));
  }

  #radius() {
    const km = byId("radius").valueAsNumber;
    if (km > 0) return km;
    this.say(say("radius_wrong"), true);
    return null;
  }

  #around(at) {
    const km = this.#radius();
    this.stop();
    if (km) this.#take({ kind: "circle", at, km });
    else this.#radius();
  }

  async #open(file) {
    byId("file").value = ""; // the same file can be opened again
    if (!file) return;
    this.stop();
    if (!(await this.#whole(() => this.#open(file)))) return;
    try {
      this.#choose(await partOfFile(this.#data, file), byId("add").checked);
    } catch (error) {
      if (!(error instanceof FileError)) throw error;
      this.say(`${file.name}: ${error.message}`, true);
    }
  }

  /** Places are kept as the address has them: a link chooses exactly the same. */
  async #take(part) {
    if (!(await this.#whole(() => this.#take(part)))) return;
    const rounded = partOfKey(this.#data, partKey(part));
    if (unitsOf(this.#data, rounded).length) return this.#choose(rounded, byId("add").checked);
    this.say(say("nothing_inside", { one: this.#data.finest.one }), true);
  }
}
