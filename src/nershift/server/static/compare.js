// Two versions on the same text, side by side, with what differs marked.

import * as api from "./api.js";
import { attempt, byId, count, fillSelect, make } from "./dom.js";
import { paint } from "./paint.js";
import { cut, missingFrom } from "./spans.js";

export class Compare {
  /** `text()` is what both versions read. */
  constructor(labels, text) {
    Object.assign(this, { labels, text, pairs: [] });
    this.turn = 0; // answers to anything but the latest question are dropped
    for (const id of ["compare-before", "compare-after"]) byId(id).addEventListener("change", () => this.choose());
    byId("compare-all").addEventListener("change", () => this.render());
  }

  /** Offer the versions there are; with one alone there is nothing to compare. */
  offer(names) {
    this.names = names;
    const { before, after } = this.labels.compared ?? {};
    fillSelect(byId("compare-before"), names, names.includes(before) ? before : names.at(-2));
    fillSelect(byId("compare-after"), names, names.includes(after) ? after : names.at(-1));
  }

  choose() {
    attempt(async () => {
      this.labels.remember({ compared: { before: byId("compare-before").value, after: byId("compare-after").value } });
      await this.refresh();
    });
  }

  /** Tag the text with both versions and show the outcome. */
  async refresh() {
    const text = this.text();
    const section = byId("compare");
    section.hidden = !text || this.names.length < 2;
    if (section.hidden) return;
    const turn = ++this.turn;
    const models = [byId("compare-before").value, byId("compare-after").value];
    const answers = await Promise.all(models.map((model) => api.tagText(text, model)));
    if (turn !== this.turn) return;
    const [before, after] = answers.map((answer) => cut(answer.results[0], text));
    this.pairs = before.map((sentence, i) => {
      const [old, now] = [sentence.predicted, after[i].predicted];
      return { sentence, old, now, gone: missingFrom(now, old), come: missingFrom(old, now) };
    });
    this.render();
  }

  render() {
    const changed = this.pairs.filter((pair) => pair.gone.length + pair.come.length > 0);
    const total = changed.reduce((sum, pair) => sum + pair.gone.length + pair.come.length, 0);
    byId("compare-summary").textContent = total
      ? `${count(total, "difference")} in ${changed.length} of ${count(this.pairs.length, "sentence")}`
      : `no difference in ${count(this.pairs.length, "sentence")}`;
    const shown = byId("compare-all").checked ? this.pairs : changed;
    byId("compare-rows").replaceChildren(...shown.map((pair) => this.row(pair)));
  }

  row({ sentence, old, now, gone, come }) {
    const side = (name, entities, differing, sign) => {
      const mark = (entity) => (differing.includes(entity) ? `${sign} ` : "");
      const colour = (type) => this.labels.colour(type);
      const word = (at) => sentence.tokens[at];
      const nodes = paint(sentence, entities, { word, colour, mark });
      for (const [i, box] of nodes.filter((node) => node instanceof Element).entries())
        box.classList.toggle(sign === "+" ? "come" : "gone", differing.includes(entities[i]));
      return make("div", { class: "words", dir: "auto", role: "group", "aria-label": name }, ...nodes);
    };
    const seen = this.labels.isChecked(sentence) ? make("p", { class: "hint" }, "among your labels") : null;
    return make("li", { class: "pair" }, side("before", old, gone, "−"), side("after", now, come, "+"), seen);
  }
}
