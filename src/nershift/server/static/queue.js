// The sentences to work through: all of a text, those of them that are shown, and in which order.

/** `sentences` are all, in the order given; `view` are those shown. Orders and filters are chosen by `state`. */
export class Queue {
  constructor(labels, predictions, state) {
    Object.assign(this, { labels, predictions, state, version: "", sentences: [], view: [], rows: new Map() });
  }

  take(sentences) {
    this.sentences = sentences.map((sentence, i) => ({ ...sentence, number: i + 1 }));
    this.arrange();
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
    const open = (sentence) => !this.labels.isAccepted(sentence);
    const after = this.view.findIndex((sentence, at) => at > row && open(sentence));
    return after >= 0 ? after : this.view.findIndex((sentence, at) => at < row && open(sentence));
  }

  accepted() {
    return this.sentences.filter((sentence) => this.labels.isAccepted(sentence)).length;
  }
}
