// The sentences to work through: all of a text, those of them that are shown, and in which order.

/**
 * `sentences` are all, in the order given, and `accepted` says how many of them are; `view` are those shown. Orders and
 * filters are chosen by `state`.
 */
export class Queue {
  constructor(labels, predictions, state) {
    Object.assign(this, { labels, predictions, state, version: "", view: [], rows: new Map(), found: null });
    Object.assign(this, { sentences: [], copies: new Map(), done: new Set(), accepted: 0 });
    labels.addEventListener("change", ({ detail: keys }) => this.count(keys));
  }

  take(sentences) {
    this.sentences = sentences.map((sentence, i) => ({ ...sentence, number: i + 1 }));
    this.copies = new Map(); // how often a sentence is there
    for (const { key } of this.sentences) this.copies.set(key, (this.copies.get(key) ?? 0) + 1);
    Object.assign(this, { done: new Set(), accepted: 0 });
    this.arrange();
  }

  /** Count which of these keys are accepted now. */
  count(keys) {
    for (const key of keys) {
      const [copies, now] = [this.copies.get(key), this.labels.isAccepted({ key })];
      if (copies === undefined || now === this.done.has(key)) continue;
      this.done[now ? "add" : "delete"](key);
      this.accepted += now ? copies : -copies;
    }
  }

  prediction(sentence) {
    return this.predictions.of(this.version, sentence.key);
  }

  /** What was there before the annotator: the entities of the file, or else the prediction; null while there is none. */
  offered(sentence) {
    return sentence.entities ?? this.prediction(sentence)?.entities ?? null;
  }

  /** The entities to show. */
  entitiesOf(sentence) {
    return this.labels.get(sentence.key)?.entities ?? this.offered(sentence);
  }

  /** Order and filter anew. Nothing moves between two calls, whatever is labelled. */
  arrange() {
    this.count(this.copies.keys()); // the labels may be those of another annotator
    const { order, show, type } = this.state;
    const accepted = (sentence) => this.labels.isAccepted(sentence);
    const has = (sentence) => (this.entitiesOf(sentence) ?? []).some((entity) => entity.label === type);
    this.view = this.sentences.filter(
      (sentence) => (show === "all" || accepted(sentence) === (show === "accepted")) && (!type || has(sentence)),
    );
    if (order === "unsure") {
      const doubt = new Map(this.view.map((sentence) => [sentence, this.prediction(sentence)?.uncertainty ?? -1]));
      this.view.sort((a, b) => doubt.get(b) - doubt.get(a));
    }
    this.rows = new Map();
    this.view.forEach(({ key }, row) => this.rows.set(key, [...(this.rows.get(key) ?? []), row]));
  }

  /** The next row after one that is not accepted, from the top again after the last; -1 when there is none. */
  next(row) {
    const total = this.view.length;
    for (let by = 1; by < total; by += 1) {
      const at = (row + by) % total;
      if (!this.labels.isAccepted(this.view[at])) return at;
    }
    return -1;
  }

  /** How many entities the version in use predicts; counted anew when it has tagged more. */
  predicted() {
    const { version, sentences } = this;
    const tagged = this.predictions.size(version);
    if (this.found?.version !== version || this.found.sentences !== sentences || this.found.tagged !== tagged) {
      const sum = sentences.reduce((total, sentence) => total + (this.prediction(sentence)?.entities.length ?? 0), 0);
      this.found = { version, sentences, tagged, sum };
    }
    return this.found.sum;
  }
}
