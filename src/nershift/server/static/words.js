// The sentences on the page: painting them, selecting words by pointer and keyboard, correcting entities.

import { byId, make } from "./dom.js";
import { detailOf, paint } from "./paint.js";
import { entityAt, without, withEntity } from "./spans.js";

/**
 * A list of sentences. Each is a listbox whose options are its words; one word of each can be reached by Tab.
 *
 * `menu` asks for a type; `types()` are those that digits choose; `guard` runs what may fail; `onNext` finds the
 * sentence to correct next.
 */
export class Words {
  constructor(root, labels, { menu, types, guard, onNext }) {
    Object.assign(this, { root, labels, menu, types, guard, onNext });
    this.sentences = [];
    this.selection = null; // {row, anchor, head}: words from anchor to head, both included
    this.dragging = false;
    this.touched = false;
    root.addEventListener("keydown", (event) => this.onKey(event));
    root.addEventListener("focusin", (event) => this.onFocus(event));
    root.addEventListener("pointerdown", (event) => this.onDown(event));
    root.addEventListener("pointerover", (event) => this.onOver(event));
    root.addEventListener("click", (event) => this.onClick(event));
    addEventListener("pointerup", () => this.onUp());
  }

  show(sentences) {
    this.sentences = sentences;
    this.selection = null;
    this.root.replaceChildren(...sentences.map((_, row) => make("li")));
    sentences.forEach((_, row) => this.render(row));
    byId("no-sentences").hidden = sentences.length > 0;
    byId("detail").hidden = true;
  }

  /** Paint one sentence anew, after it or its labels changed. */
  render(row) {
    const sentence = this.sentences[row];
    const entry = this.labels.entries.get(sentence.key);
    const item = this.root.children[row];
    const word = (at, entity) =>
      make("span", { class: "word", role: "option", tabindex: -1, "aria-selected": "false", dataset: { at } }, sentence.tokens[at]);
    const colour = (type) => this.labels.colour(type);
    const words = make(
      "div",
      {
        class: "words",
        role: "listbox",
        dir: "auto",
        "aria-orientation": "horizontal",
        "aria-multiselectable": "true",
        "aria-label": `Words of sentence ${row + 1}`,
      },
      ...paint(sentence, this.labels.entitiesOf(sentence), { word, colour, group: true }),
    );
    words.querySelector(".word").tabIndex = 0;
    const tick = make("input", { type: "checkbox", checked: entry?.checked, on: { change: () => this.toggle(row) } });
    const reset = make(
      "button",
      { type: "button", class: "link", "aria-label": `Reset sentence ${row + 1} to the prediction`, on: { click: () => this.reset(row) } },
      "reset",
    );
    const side = make("div", { class: "checks" }, make("label", { class: "tick" }, tick, " checked"), entry ? reset : null);
    item.classList.toggle("checked", entry?.checked ?? false);
    item.dataset.row = row;
    item.replaceChildren(words, side);
  }

  renderAll() {
    this.sentences.forEach((_, row) => this.render(row));
    this.selection = null;
  }

  wordNode(row, at) {
    return this.root.children[row]?.querySelector(`.word[data-at="${at}"]`);
  }

  place(node) {
    const word = node instanceof Element ? node.closest(".word") : null;
    return word && { row: Number(word.closest("li").dataset.row), at: Number(word.dataset.at) };
  }

  focus(row, at) {
    const node = this.wordNode(row, at);
    if (!node) return;
    node.closest(".words").querySelector('.word[tabindex="0"]').tabIndex = -1;
    node.tabIndex = 0;
    node.focus();
  }

  select(row, anchor, head) {
    const before = this.selection?.row;
    this.selection = { row, anchor, head };
    if (before !== undefined && before !== row) this.markSelected(before);
    this.markSelected(row);
  }

  clearSelection() {
    const before = this.selection?.row;
    this.selection = null;
    if (before !== undefined) this.markSelected(before);
  }

  markSelected(row) {
    const [start, end] = this.selection?.row === row ? this.range() : [0, 0];
    for (const node of this.root.children[row]?.querySelectorAll(".word") ?? []) {
      const at = Number(node.dataset.at);
      node.setAttribute("aria-selected", String(start <= at && at < end));
    }
  }

  range() {
    const { anchor, head } = this.selection;
    return [Math.min(anchor, head), Math.max(anchor, head) + 1];
  }

  /** What an action is about: the selected words, or the whole entity around a single one. */
  subject(row, at) {
    const entity = entityAt(this.labels.entitiesOf(this.sentences[row]), at);
    const chosen = this.selection?.row === row && this.selection.anchor !== this.selection.head;
    const [start, end] = chosen ? this.range() : entity ? [entity.start, entity.end] : [at, at + 1];
    return { sentence: this.sentences[row], row, at, start, end, entity };
  }

  // --- corrections

  assign(row, start, end, label) {
    const sentence = this.sentences[row];
    this.change(row, start, () => this.labels.correct(sentence, withEntity(this.labels.entitiesOf(sentence), start, end, label)));
  }

  remove(row, entity) {
    const sentence = this.sentences[row];
    this.change(row, entity.start, () => this.labels.correct(sentence, without(this.labels.entitiesOf(sentence), entity)));
  }

  toggle(row) {
    const sentence = this.sentences[row];
    const back = this.root.children[row].contains(document.activeElement) && document.activeElement.type === "checkbox";
    this.change(row, null, () => this.labels.check(sentence, !this.labels.isChecked(sentence)));
    if (back) this.root.children[row].querySelector("input").focus();
  }

  reset(row) {
    this.change(row, 0, () => this.labels.reset(this.sentences[row]));
  }

  /** Carry out a change and paint every copy of the sentence anew. */
  change(row, at, action) {
    this.clearSelection();
    this.guard(action);
    this.sentences.forEach(({ key }, other) => key === this.sentences[row].key && this.render(other));
    if (at !== null) this.focus(row, at);
  }

  /** Ask for a type of the words; the keyboard returns to them afterwards. */
  openMenu(row, at) {
    const { sentence, start, end, entity } = this.subject(row, at);
    this.select(row, start, end - 1);
    this.menu.open({
      sentence,
      start,
      end,
      entity,
      near: this.wordNode(row, end - 1),
      onExtent: (from, to) => {
        this.select(row, from, to - 1);
        return this.wordNode(row, to - 1);
      },
      onType: (label, from, to) => this.assign(row, from, to, label),
      onRemove: () => this.remove(row, entity),
      onClose: () => this.focus(row, at),
    });
  }

  // --- pointer

  onDown(event) {
    this.touched = event.pointerType === "touch"; // a finger scrolls: it selects by tapping only
    const found = this.place(event.target);
    if (!found || this.touched || event.button !== 0) return;
    event.preventDefault(); // no native selection across the words
    const extends_ = event.shiftKey && this.selection?.row === found.row;
    this.select(found.row, extends_ ? this.selection.anchor : found.at, found.at);
    this.focus(found.row, found.at);
    this.dragging = true;
  }

  onOver(event) {
    const found = this.place(event.target);
    if (!found) return;
    if (this.dragging && found.row === this.selection?.row) this.select(found.row, this.selection.anchor, found.at);
    this.tell(found.row, found.at);
  }

  onUp() {
    if (!this.dragging) return;
    this.dragging = false;
    if (this.selection) this.openMenu(this.selection.row, this.selection.head);
  }

  onClick(event) {
    const found = this.place(event.target);
    if (!found || !this.touched) return;
    this.select(found.row, found.at, found.at);
    this.openMenu(found.row, found.at);
  }

  // --- keyboard

  onFocus(event) {
    const found = this.place(event.target);
    if (found) this.tell(found.row, found.at);
  }

  onKey(event) {
    const found = this.place(event.target);
    if (!found || event.ctrlKey || event.metaKey || event.altKey) return;
    const { row, at } = found;
    const last = this.sentences[row].tokens.length - 1;
    const rightwards = getComputedStyle(event.target.closest(".words")).direction === "ltr" ? 1 : -1;
    const actions = {
      ArrowRight: () => this.step(row, at, rightwards, event.shiftKey),
      ArrowLeft: () => this.step(row, at, -rightwards, event.shiftKey),
      ArrowDown: () => this.jump(row + 1),
      ArrowUp: () => this.jump(row - 1),
      Home: () => this.move(row, at, 0, event.shiftKey),
      End: () => this.move(row, at, last, event.shiftKey),
      Enter: () => this.openMenu(row, at),
      Delete: () => this.removeAt(row, at),
      Backspace: () => this.removeAt(row, at),
      Escape: () => this.clearSelection(),
      " ": () => {
        this.toggle(row);
        this.focus(row, at);
      },
      n: () => this.onNext(),
    };
    const type = /^[1-9]$/.test(event.key) ? this.types()[Number(event.key) - 1] : undefined;
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (type !== undefined) {
      const { start, end } = this.subject(row, at);
      this.assign(row, start, end, type);
    } else if (action) action();
    else return;
    event.preventDefault();
  }

  /** One word on; past the edge of a sentence into its neighbour, unless words are being selected. */
  step(row, at, by, extending) {
    const to = at + by;
    const inside = 0 <= to && to < this.sentences[row].tokens.length;
    if (inside) this.move(row, at, to, extending);
    else if (!extending) this.jump(row + by, by < 0);
  }

  move(row, at, to, extending) {
    if (extending) this.select(row, this.selection?.row === row ? this.selection.anchor : at, to);
    else this.clearSelection();
    this.focus(row, to);
  }

  jump(row, toEnd = false) {
    if (!this.sentences[row]) return;
    this.clearSelection();
    this.focus(row, toEnd ? this.sentences[row].tokens.length - 1 : 0);
  }

  removeAt(row, at) {
    const entity = entityAt(this.labels.entitiesOf(this.sentences[row]), at);
    if (entity) this.remove(row, entity);
  }

  /** Say below the sentences what stands at a word. */
  tell(row, at) {
    const sentence = this.sentences[row];
    const entity = entityAt(this.labels.entitiesOf(sentence), at);
    const [start, end] = entity ? [entity.start, entity.end] : [at, at + 1];
    const box = byId("detail");
    box.replaceChildren(...detailOf(sentence, start, end, entity, (type) => this.labels.colour(type)));
    box.hidden = false;
  }

  /** Point at the sentences to correct next, the first of `rows` most of all. */
  suggest(rows) {
    [...this.root.children].forEach((item, row) => {
      item.classList.toggle("next", row === rows[0]);
      const rank = rows.indexOf(row);
      if (0 <= rank && rank < 3) item.dataset.rank = rank === 0 ? "next" : `then ${rank + 1}`;
      else delete item.dataset.rank;
    });
    if (rows.length > 0) {
      this.root.children[rows[0]].scrollIntoView({ block: "center" });
      this.jump(rows[0]);
    }
  }
}
