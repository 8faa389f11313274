// Who labels: the name under which labels are kept.

import { ask, byId, count } from "./dom.js";
import { ME } from "./state.js";

const MOST = 40; // letters

/** `onChange()` hears that the labels are those of another annotator now. */
export class Annotator {
  constructor({ labels, state, history, sync, onChange }) {
    Object.assign(this, { labels, state, history, sync, onChange });
    this.input = byId("annotator");
    this.input.maxLength = MOST;
    this.input.addEventListener("change", () => this.choose(this.input.value.trim()));
    this.render();
  }

  render() {
    this.input.value = this.state.annotator === ME ? "" : this.state.annotator;
    byId("labels-of").textContent = this.state.annotator === ME ? "nobody named" : this.state.annotator;
  }

  /** Turn to the labels of a name; what was labelled on this visit before one was chosen may be taken along. */
  async choose(given) {
    const name = given || ME;
    if (name === this.state.annotator) return this.render();
    const before = this.state.annotator;
    await this.sync.exchange(); // the labels so far
    const touched = this.history.touched(this.labels);
    const mine = [...this.labels.records].filter(([key, record]) => touched.has(key) && !record.deleted);
    this.state.remember({ annotator: name });
    this.labels.open(name);
    this.history.forget();
    this.render();
    this.onChange();
    await this.sync.exchange();
    if (before !== ME || mine.length === 0) return undefined;
    const question = `You labelled ${count(mine.length, "sentence")} before you chose a name. Copy them to ${name}?`;
    if (await ask(question, "Copy them", "No")) this.labels.copy(mine);
    return undefined;
  }
}
