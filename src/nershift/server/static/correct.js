// What an annotator does to sentences: each deed is a step that can be undone.

import { bare, nearest, room, sameSpan, withBorders, withEntity, without } from "./spans.js";
import { same } from "./types.js";

/** `tell` says a short line to people. */
export class Corrections {
  constructor({ labels, types, history, queue, rows, tell }) {
    Object.assign(this, { labels, types, history, queue, rows, tell });
  }

  step(what, sentence, action) {
    this.tell("");
    this.history.step(what, sentence?.key ?? null, action);
  }

  /** Keep other entities of a sentence. It is accepted only if it was before: whoever mends a word need not have read all. */
  keep(what, sentence, entities, before = () => {}) {
    const { key, tokens, gaps } = sentence;
    const accepted = this.labels.isAccepted(sentence);
    this.step(what, sentence, () => {
      before();
      const unsaid = !accepted && same(entities, this.queue.offered(sentence));
      this.labels.put(key, unsaid ? null : { tokens, gaps, entities: accepted ? bare(entities) : entities, accepted });
    });
  }

  entitiesOf(sentence) {
    return this.queue.entitiesOf(sentence) ?? [];
  }

  /** Give the words one is at a type; a new one is named by this. */
  assign(label) {
    const subject = this.rows.subject();
    if (!subject) return this.tell("Select words first.");
    const { sentence, row, start, end } = subject;
    const name = () => this.types.get(label)?.hidden === false || this.types.put(label, { guideline: "", hidden: false });
    this.keep(`“${label}”`, sentence, withEntity(this.entitiesOf(sentence), start, end, label), name);
    return this.rows.focus(row, start);
  }

  remove() {
    const { sentence, entity } = this.rows.subject() ?? {};
    if (!entity) return;
    this.keep(`removal of “${entity.label}”`, sentence, without(this.entitiesOf(sentence), entity));
    this.rows.focus(this.rows.at.row, this.rows.at.at);
  }

  /** Move both borders of an entity, but not into its neighbours. */
  setBorders(row, entity, start, end) {
    const sentence = this.queue.view[row];
    const [low, high] = room(this.entitiesOf(sentence), entity, sentence.tokens.length);
    const moved = { ...entity, start: Math.max(low, start), end: Math.min(high, end) };
    if (moved.start >= moved.end || sameSpan(moved, entity)) return;
    this.keep("border", sentence, withBorders(this.entitiesOf(sentence), entity, moved.start, moved.end));
    this.rows.focus(row, Math.min(Math.max(this.rows.at.at, moved.start), moved.end - 1));
  }

  /** Let the entity around a word, or the next one, begin or end at that word. */
  borderHere(edge) {
    const { row, at, sentence } = this.rows.subject();
    const entity = nearest(this.entitiesOf(sentence), at, edge);
    if (!entity) return this.tell(`No entity could ${edge} here.`);
    return edge === "start" ? this.setBorders(row, entity, at, entity.end) : this.setBorders(row, entity, entity.start, at + 1);
  }

  /** Move a border of the entity, or of the selected words, by one word. */
  nudge(edge, by) {
    const subject = this.rows.subject();
    if (!subject) return;
    const { row, sentence, entity, chosen } = subject;
    const start = subject.start + (edge === "start" ? by : 0);
    const end = subject.end + (edge === "end" ? by : 0);
    if (entity && !chosen) this.setBorders(row, entity, start, end);
    else if (0 <= start && start < end && end <= sentence.tokens.length) this.rows.select(start, end - 1);
  }

  /** Accept a sentence as it stands, or take that back. Whether it could be done. */
  accept(row, accepted = true) {
    const sentence = this.queue.view[row];
    const entities = this.queue.entitiesOf(sentence);
    if (entities === null) {
      this.tell("This sentence is not tagged yet.");
      return false;
    }
    const { key, tokens, gaps } = sentence;
    const unsaid = !accepted && same(entities, this.queue.offered(sentence) && bare(this.queue.offered(sentence)));
    const value = unsaid ? null : { tokens, gaps, entities: bare(entities), accepted };
    this.step(accepted ? "acceptance" : "withdrawal", sentence, () => this.labels.put(key, value));
    return true;
  }

  acceptAndGoOn() {
    if (this.rows.at && this.accept(this.rows.at.row)) this.goOn();
  }

  /** To the next sentence that is not accepted. */
  goOn() {
    if (!this.rows.at) return;
    const row = this.queue.next(this.rows.at.row);
    if (row >= 0) return this.rows.focus(row, 0);
    this.rows.refocus();
    return this.tell("Every sentence here is accepted.");
  }

  reset(row) {
    const sentence = this.queue.view[row];
    this.step("reset", sentence, () => this.labels.put(sentence.key, null));
    this.rows.focus(row, 0);
  }

  forget() {
    this.step("deletion of all labels", null, () => {
      for (const [key] of this.labels.entries()) this.labels.put(key, null);
    });
  }

  undo() {
    this.travel(this.history.undo(), "undone");
  }

  redo() {
    this.travel(this.history.redo(), "done again");
  }

  /** Say what was done or undone, and go where that was. */
  travel(step, how) {
    if (!step) return this.tell(`Nothing to be ${how}.`);
    this.tell(`${step.what}: ${how}` + (step.complete ? "." : ", but for what was changed elsewhere since."));
    const [row] = this.queue.rows.get(step.where) ?? [];
    return row === undefined ? undefined : this.rows.focus(row, this.rows.at?.row === row ? this.rows.at.at : 0);
  }
}
