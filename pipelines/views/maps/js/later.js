// What the page does not begin with: read when the reader first wants it, with a bar that shows how far that is. What could
// not be fetched whole is not there at all; the page says so, and tries again when the reader asks.

import { FetchError, megabytes } from "./data.js";
import { byId, text } from "./dom.js";
import { say } from "./phrases.js";
import { capital } from "./places.js";

export class Later {
  #what;
  #all;
  #read;
  #again;
  #reading = null;
  #row = text("p", "");

  /** `what` it is, in the plural, of so many bytes; `read(tell)` takes it in, and tells how many have come. */
  constructor(what, all, read) {
    [this.#what, this.#all, this.#read] = [what, all, read];
    this.#row.tabIndex = -1; // for the focus that was on a button
  }

  /** Whether it is here, once that is known; where it is not, the reader can have `again` done. */
  get(again) {
    this.#again = again;
    return (this.#reading ??= this.#attempt());
  }

  async #attempt() {
    const [label, words, bar] = ["label", "span", "progress"].map((name) => text(name, ""));
    const tell = (n) => {
      bar.value = n / this.#all;
      words.textContent = `${say("opening", { what: this.#what, megabytes: megabytes(n, this.#all) })} `;
    };
    tell(0);
    label.append(words, bar);
    this.#row.replaceChildren(label);
    if (!this.#row.isConnected) byId("loading").append(this.#row); // which, moved, would lose the focus
    try {
      await this.#read(tell);
      if (document.activeElement === this.#row) byId("chosen").focus();
      this.#row.remove();
      return true;
    } catch (error) {
      if (!(error instanceof FetchError)) throw error;
      this.#failed(error.message);
      return false;
    }
  }

  #failed(why) {
    this.#reading = null;
    const words = text("span", `${say("not_opened", { what: capital(this.#what), why })} `, "warning");
    words.role = "alert";
    const button = text("button", say("try_again"));
    button.type = "button";
    button.addEventListener("click", () => {
      this.#row.focus();
      this.#again();
    });
    this.#row.replaceChildren(words, button);
  }
}
