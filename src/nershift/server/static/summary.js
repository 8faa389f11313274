// How the work stands: progress, steps, counts of labels, and what can be undone.

import { byId, count, fillOptions, make } from "./dom.js";
import { ME } from "./state.js";

export class Summary {
  constructor({ labels, types, queue, history, steps, versions, files }) {
    Object.assign(this, { labels, types, queue, history, steps, versions, files });
  }

  /** How much of what was said is on the server; a small screen shows it only when it is late. */
  saved(text, late) {
    byId("labels-saved").textContent = text;
    const name = this.labels.annotator === ME ? "Labels" : `Labels of ${this.labels.annotator}`;
    byId("saved").textContent = `${name}: ${text}`;
    byId("saved").classList.toggle("late", late);
  }

  /** How often each type is among the accepted labels. */
  counts() {
    return this.labels.tally.types;
  }

  draw() {
    this.drawProgress();
    this.drawLabels();
    this.drawHistory();
    fillOptions(byId("type"), [["", "any"], ...this.types.offered().map((type) => [type, type])]);
    byId("type").value = this.queue.state.type;
  }

  drawProgress() {
    const [accepted, total] = [this.queue.accepted, this.queue.sentences.length];
    byId("progress").max = Math.max(total, 1);
    byId("progress").value = accepted;
    byId("progress-text").textContent = total ? `${accepted} of ${total} accepted` : "";
    this.steps.tell("text", total ? count(total, "sentence") : "");
    this.steps.tell("correct", total ? `${accepted} of ${total}` : "");
    this.steps.tell("adapt", this.versions.current);
    const shown = this.queue.view.length < total ? `${this.queue.view.length} shown of ` : "";
    const name = this.files.nameOf(this.queue.state.source);
    const predicted = `${count(this.queue.predicted(), "entity", "entities")} predicted by ${this.queue.version}`;
    byId("found").textContent = total ? `${shown}${count(total, "sentence")}${name && ` of ${name}`}, ${predicted}` : "";
    this.drawDone(total > 0 && accepted === total);
    byId("no-sentences").hidden = this.queue.view.length > 0;
    byId("no-sentences").textContent = total
      ? "No sentence fits what is to be shown."
      : "No text yet: paste some in step 1, or upload a file. Then correct what was found, or name a new type.";
    for (const id of ["accept", "skip"]) byId(id).disabled = this.queue.view.length === 0;
  }

  /** At the end of a file: what comes next. */
  drawDone(done) {
    const next = done ? this.files.after(this.queue.state.source) : null;
    byId("all-done").hidden = !done;
    byId("next-file").hidden = !next;
    if (next) byId("next-file").textContent = `Next file: ${next.name}`;
  }

  drawLabels() {
    const { said, accepted, empty, types } = this.labels.tally;
    byId("labels-count").textContent =
      count(accepted, "accepted sentence") + (empty ? `, ${empty} of them without entities` : "");
    const chip = (type) => make("span", { class: `chip ${this.types.colour(type)}` }, type);
    const known = this.types.offered().filter((type) => types.get(type));
    byId("labels-types").replaceChildren(...known.map((type) => make("li", {}, chip(type), ` ${types.get(type)}`)));
    byId("review").disabled = said === 0;
    byId("forget").hidden = said === 0;
    byId("export-form").querySelector("button").disabled = accepted === 0;
  }

  drawHistory() {
    for (const [id, name, steps] of [["undo", "Undo", this.history.done], ["redo", "Redo", this.history.undone]]) {
      byId(id).disabled = steps.length === 0;
      byId(id).ariaLabel = steps.length > 0 ? `${name}: ${steps.at(-1).what}` : name;
      byId(id).title = byId(id).ariaLabel;
    }
  }
}
