// The sentences on the page: drawn when they come near, with the word one is at and the words that are selected.
// They lie in parts: the browser lays out and paints those in sight (correct.css), so a queue may have any length.

import { make } from "./dom.js";
import { paint } from "./paint.js";
import { entityAt, wordsOf } from "./spans.js";

const AHEAD = "600px 0px"; // how near a part comes before its sentences are drawn
const PART = 20; // sentences that are drawn at once

/**
 * All sentences are one Tab stop. Each is a listbox whose options are its words. `at` is the word one is
 * at; `selection` {anchor, head} are words chosen with the Shift key or by dragging. `onMove` hears when either changes.
 */
export class Rows {
  constructor(root, queue, { labels, types, onMove }) {
    Object.assign(this, { root, queue, labels, types, onMove, items: [], at: null, selection: null, entered: false });
    const near = (seen) => seen.filter((part) => part.isIntersecting).forEach(({ target }) => this.drawPart(target));
    this.observer = new IntersectionObserver(near, { root: root.parentElement, rootMargin: AHEAD });
  }

  /** Put up the sentences of the queue, with the first of them as the one to be at. */
  show() {
    this.observer.disconnect();
    this.drawn = new Set();
    this.selection = null;
    this.entered = false;
    this.at = this.queue.view.length > 0 ? { row: 0, at: 0 } : null;
    this.items = this.queue.view.map((sentence, row) => this.plain(sentence, row));
    const parts = Array.from({ length: Math.ceil(this.items.length / PART) }, (_, i) =>
      make("ol", { class: "part" }, ...this.items.slice(i * PART, (i + 1) * PART)),
    );
    this.root.replaceChildren(...parts);
    if (parts.length > 0) this.drawPart(parts[0]);
    for (const part of parts) this.observer.observe(part);
    this.onMove();
  }

  drawPart(part) {
    for (const item of part.children) this.draw(this.rowOf(item));
  }

  /** A sentence that is far away: its text alone. */
  plain(sentence, row) {
    const text = wordsOf(sentence, 0, sentence.tokens.length);
    return make("li", { dataset: { row } }, make("div", { class: "words", dir: "auto" }, text));
  }

  draw(row) {
    if (!this.drawn.has(row)) this.redraw(row);
  }

  /** Draw the sentences of these keys anew, as far as they are drawn at all. */
  refresh(keys) {
    for (const key of keys) for (const row of this.queue.rows.get(key) ?? []) if (this.drawn.has(row)) this.redraw(row);
    this.onMove();
  }

  refreshAll() {
    this.refresh(this.queue.rows.keys());
  }

  redraw(row) {
    const item = this.items[row];
    const back = this.focusIn(item);
    const sentence = this.queue.view[row];
    const entities = this.queue.entitiesOf(sentence);
    const said = this.labels.get(sentence.key);
    const option = { class: "word", role: "option", tabindex: -1, "aria-selected": "false" };
    const list = { class: "words", role: "listbox", dir: "auto", "aria-label": `Words of sentence ${sentence.number}` };
    const word = (at) => make("span", { ...option, dataset: { at } }, sentence.tokens[at]);
    const words = make(
      "div",
      { ...list, "aria-orientation": "horizontal", "aria-multiselectable": "true" },
      ...paint(sentence, entities ?? [], { word, colour: (type) => this.types.colour(type), editable: true }),
    );
    item.className = [said?.accepted ? "accepted" : said ? "draft" : "", entities ? "" : "waiting"].join(" ").trim();
    const number = make("span", { class: "number", "aria-hidden": "true" }, String(sentence.number));
    item.replaceChildren(number, words, this.side(sentence, said));
    this.drawn.add(row);
    if (row === this.at?.row) this.mark();
    if (back) item.querySelector(back)?.focus({ preventScroll: true });
  }

  side({ number }, said) {
    const box = { type: "checkbox", checked: said?.accepted, tabindex: -1, dataset: { act: "accept" } };
    const button = { type: "button", class: "link", tabindex: -1, dataset: { act: "reset" } };
    const tick = make("input", box);
    const reset = make("button", { ...button, "aria-label": `Reset sentence ${number} to the prediction` }, "reset");
    return make("div", { class: "checks" }, make("label", { class: "tick" }, tick, make("span", {}, "accepted")), said ? reset : null);
  }

  /** What has the focus inside a sentence, as a selector that still holds when it is drawn anew. */
  focusIn(item) {
    const active = document.activeElement;
    if (!item.contains(active)) return null;
    return active.dataset.at === undefined ? `[data-act="${active.dataset.act}"]` : `.word[data-at="${active.dataset.at}"]`;
  }

  rowOf(node) {
    return Number(node.closest("li").dataset.row);
  }

  wordNode(row, at) {
    return this.items[row]?.querySelector(`.word[data-at="${at}"]`);
  }

  /** Go to a word. Unless `keep`, whatever was selected is so no longer. */
  focus(row, at, { keep = false } = {}) {
    if (!this.queue.view[row]) return;
    this.draw(row);
    const before = this.at?.row;
    this.at = { row, at };
    this.entered = true;
    if (!keep) this.selection = null;
    if (before !== row) this.unmark(before);
    this.mark();
    const node = this.wordNode(row, at);
    node.focus({ preventScroll: true });
    this.items[row].scrollIntoView({ block: "nearest" });
    node.scrollIntoView({ block: "nearest" });
    this.onMove();
  }

  /** Back to the word one was at, from the panel for instance. */
  refocus() {
    if (this.at) this.focus(this.at.row, this.at.at, { keep: true });
  }

  select(anchor, head) {
    this.selection = { anchor, head };
    this.mark();
    this.onMove();
  }

  clear() {
    this.selection = null;
    this.mark();
    this.onMove();
  }

  /** What an action is about: the selected words, the entity one is in, or a word. Null before one has been anywhere. */
  subject() {
    if (!this.at || !this.entered) return null;
    const { row, at } = this.at;
    const sentence = this.queue.view[row];
    const entity = entityAt(this.queue.entitiesOf(sentence) ?? [], at);
    const { anchor, head } = this.selection ?? {};
    const chosen = this.selection ? [Math.min(anchor, head), Math.max(anchor, head) + 1] : null;
    const [start, end] = chosen ?? (entity ? [entity.start, entity.end] : [at, at + 1]);
    return { row, at, sentence, start, end, entity, chosen: chosen !== null };
  }

  /** Show in the sentence one is at which words an action is about; `preview` shows other words instead. */
  mark(preview = null) {
    const item = this.items[this.at?.row];
    if (!item) return;
    const subject = this.subject();
    const [start, end] = preview ?? (subject ? [subject.start, subject.end] : [0, 0]);
    item.classList.add("current");
    for (const node of item.querySelectorAll(".word")) {
      const at = Number(node.dataset.at);
      node.setAttribute("aria-selected", String(start <= at && at < end));
      node.tabIndex = at === this.at.at ? 0 : -1;
    }
    for (const node of item.querySelectorAll(".entity"))
      node.classList.toggle("active", subject?.entity?.start === Number(node.dataset.at));
    for (const node of item.querySelectorAll("[data-act]")) node.tabIndex = 0;
  }

  unmark(row) {
    const item = this.items[row];
    if (!item) return;
    item.classList.remove("current");
    for (const node of item.querySelectorAll('.word[tabindex="0"], [data-act]')) node.tabIndex = -1;
    for (const node of item.querySelectorAll('[aria-selected="true"]')) node.setAttribute("aria-selected", "false");
    for (const node of item.querySelectorAll(".active")) node.classList.remove("active");
  }
}
