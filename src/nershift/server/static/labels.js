// The labels of one annotator, by sentence. Only sentences that were accepted are labels; the others are drafts.

import { keyOf } from "./spans.js";
import { Tally } from "./tally.js";
import { same } from "./types.js";

/** Labels from elsewhere may come without what stood between the words. */
const gapsOf = ({ tokens, gaps }) => (gaps?.length === tokens.length ? gaps : tokens.map((_, i) => (i ? " " : "")));

export const labelName = (annotator, key) => `labels/${encodeURIComponent(annotator)}/${key}`;

/**
 * `records` has {tokens, gaps, entities, accepted} by sentence, with `changed`, the time of the last change, and
 * `unsent` while the server has not confirmed it (`late` are the keys of these); `tally` counts them. What was taken back stays as {tokens, deleted}, so that the server
 * and other browsers hear of it. "change" is told with the keys of the sentences; `recorder` is as in types.js.
 */
export class Labels extends EventTarget {
  constructor(store, annotator) {
    super();
    Object.assign(this, { store, recorder: () => {} });
    this.open(annotator);
    store.watch((name) => {
      if (name && !name.startsWith(labelName(this.annotator, ""))) return;
      const before = this.records.keys();
      this.load();
      this.tell([...new Set([...before, ...this.records.keys()])]);
    });
  }

  /** Turn to the labels of an annotator. */
  open(annotator) {
    this.annotator = annotator;
    this.load();
  }

  load() {
    const kept = this.store.under(labelName(this.annotator, ""));
    Object.assign(this, { records: new Map(), tally: new Tally(), late: new Set() });
    for (const [key, record] of kept) if (Array.isArray(record?.tokens)) this.set(key, record);
  }

  set(key, record) {
    this.tally.count(this.records.get(key), -1);
    this.tally.count(record, 1);
    this.records.set(key, record);
    this.late[record.unsent ? "add" : "delete"](key);
  }

  tell(keys) {
    this.dispatchEvent(new CustomEvent("change", { detail: keys }));
  }

  /** What was said of a sentence, or null. */
  get(key) {
    const record = this.records.get(key);
    if (!record || record.deleted) return null;
    const { tokens, gaps, entities, accepted } = record;
    return { tokens, gaps, entities, accepted };
  }

  /** Say something of a sentence; null takes it back. */
  put(key, value) {
    const [before, record] = [this.get(key), this.records.get(key)];
    if (same(before, value)) return;
    const changed = Math.max(Date.now(), (record?.changed ?? 0) + 1); // later than what it replaces, whatever the clock
    const kept = value ?? { tokens: record.tokens, deleted: true };
    this.recorder(key, before, value);
    this.keep(key, { ...kept, changed, unsent: true });
  }

  /** What the server has not confirmed yet: [key, record]. */
  unsent() {
    return [...this.late].map((key) => [key, this.records.get(key)]);
  }

  /** The server has these records; what was changed since it was sent is sent again. */
  confirm(sent) {
    for (const [key, { changed }] of sent) {
      const { unsent, ...record } = this.records.get(key) ?? {};
      if (unsent && record.changed === changed) this.write(key, record);
    }
  }

  /** The server has lost what it had. */
  sendAll() {
    for (const [key, record] of this.records) if (!record.unsent) this.write(key, { ...record, unsent: true });
  }

  /** Take over what was said elsewhere, where it is newer. */
  take(records) {
    const news = records
      .map((record) => [keyOf(record.tokens), { ...record, gaps: gapsOf(record) }])
      .filter(([key, record]) => record.changed > (this.records.get(key)?.changed ?? -1));
    for (const [key, record] of news) this.write(key, record);
    if (news.length > 0) this.tell(news.map(([key]) => key));
  }

  /** Take over what another annotator said, where nothing was said yet. */
  copy(records) {
    const news = records.filter(([key]) => !this.records.has(key));
    for (const [key, record] of news) this.write(key, { ...record, changed: Date.now(), unsent: true });
    if (news.length > 0) this.tell(news.map(([key]) => key));
  }

  write(key, record) {
    this.set(key, record);
    this.store.write(labelName(this.annotator, key), record);
  }

  keep(key, record) {
    this.write(key, record);
    this.tell([key]);
  }

  isAccepted(sentence) {
    const record = this.records.get(sentence.key);
    return record !== undefined && !record.deleted && record.accepted;
  }

  /** All that was said: [key, value]. */
  entries() {
    return [...this.records.keys()].map((key) => [key, this.get(key)]).filter(([, value]) => value !== null);
  }

  /** Accepted sentences. */
  given() {
    return this.entries()
      .map(([, value]) => value)
      .filter((value) => value.accepted);
  }

  /** Types in all that was said, drafts included, or in what was said of some sentences. */
  types(keys = this.records.keys()) {
    return new Set([...keys].flatMap((key) => this.get(key)?.entities.map((entity) => entity.label) ?? []));
  }
}
