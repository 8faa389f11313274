// Two versions on the same sentences, side by side, with what differs marked.

import { attempt, byId, count, fillSelect, make } from "./dom.js";
import { paint } from "./paint.js";
import { missingFrom } from "./spans.js";

export class Compare {
  constructor({ labels, types, queue, predictions, state }) {
    Object.assign(this, { labels, types, queue, predictions, state, names: [], pairs: [] });
    this.turn = 0; // answers to anything but the latest question are dropped
    for (const id of ["compare-before", "compare-after"]) byId(id).addEventListener("change", () => this.choose());
    byId("compare-all").addEventListener("change", () => this.render());
  }

  /** Offer the versions there are; with one alone there is nothing to compare. */
  offer(names) {
    this.names = names;
    const { before, after } = this.state.compared ?? {};
    fillSelect(byId("compare-before"), names, names.includes(before) ? before : names.at(-2));
    fillSelect(byId("compare-after"), names, names.includes(after) ? after : names.at(-1));
  }

  choose() {
    attempt(async () => {
      this.state.remember({ compared: { before: byId("compare-before").value, after: byId("compare-after").value } });
      await this.refresh();
    });
  }

  /** Tag the sentences with both versions, as far as they are not yet, and show the outcome. */
  async refresh() {
    const { sentences } = this.queue;
    byId("compare").hidden = sentences.length === 0 || this.names.length < 2;
    if (byId("compare").hidden) return;
    const turn = ++this.turn;
    const versions = [byId("compare-before").value, byId("compare-after").value];
    for (const version of versions) await this.predictions.fill(version, sentences);
    if (turn !== this.turn) return;
    this.pairs = sentences.map((sentence) => {
      const [old, now] = versions.map((version) => this.predictions.of(version, sentence.key)?.entities ?? []);
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
    const colour = (type) => this.types.colour(type);
    const seen = this.labels.isAccepted(sentence) ? make("p", { class: "hint" }, "among your labels") : null;
    const before = sideOf("before", sentence, old, gone, "−", colour);
    const after = sideOf("after", sentence, now, come, "+", colour);
    return make("li", { class: "pair" }, before, after, seen);
  }
}

/** One side of a pair: a sentence in which the entities that the other side has not are marked. */
export function sideOf(name, sentence, entities, differing, sign, colour) {
  const mark = (entity) => (differing.includes(entity) ? `${sign} ` : "");
  const nodes = paint(sentence, entities, { word: (at) => sentence.tokens[at], colour, mark });
  for (const [i, box] of nodes.filter((node) => node instanceof Element).entries())
    box.classList.toggle(sign === "+" ? "come" : "gone", differing.includes(entities[i]));
  return make("div", { class: "words", dir: "auto", role: "group", "aria-label": name }, ...nodes);
}
