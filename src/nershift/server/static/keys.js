// The keyboard in the sentences.

/** Keys do what `corrections` can do, to the word that `rows` is at; `enterPanel` goes to the types. */
export class Keys {
  constructor({ rows, queue, corrections, types, enterPanel }) {
    Object.assign(this, { rows, queue, corrections, types, enterPanel });
    rows.root.addEventListener("keydown", (event) => this.onKey(event));
    rows.root.addEventListener("focusin", (event) => this.onFocus(event));
    document.addEventListener("keydown", (event) => this.onTravel(event));
  }

  /** The focus came to a word by itself, by Tab for instance. */
  onFocus(event) {
    if (!event.target.matches(".word")) return;
    const [row, at] = [this.rows.rowOf(event.target), Number(event.target.dataset.at)];
    if (!this.rows.entered || this.rows.at.row !== row || this.rows.at.at !== at) this.rows.focus(row, at);
  }

  onKey(event) {
    if (event.altKey || event.metaKey || !event.target.matches(".word, [data-act]")) return;
    if (!event.target.matches(".word") && [" ", "Enter"].includes(event.key)) return; // a box and a button have these
    const done = event.ctrlKey ? this.jump(event) : this.act(event);
    if (done !== false) event.preventDefault();
  }

  act(event) {
    const { corrections, rows } = this;
    const { row, at } = rows.at;
    const actions = {
      ArrowRight: () => this.step(this.rightwards(event), event.shiftKey),
      ArrowLeft: () => this.step(-this.rightwards(event), event.shiftKey),
      ArrowDown: () => rows.focus(row + 1, 0),
      ArrowUp: () => rows.focus(row - 1, 0),
      Home: () => this.move(0, event.shiftKey),
      End: () => this.move(this.queue.view[row].tokens.length - 1, event.shiftKey),
      Enter: () => this.enterPanel(),
      Delete: () => corrections.remove(),
      Backspace: () => corrections.remove(),
      Escape: () => rows.focus(row, at),
      " ": () => (event.shiftKey ? corrections.accept(row, false) : corrections.acceptAndGoOn()),
      s: () => corrections.borderHere("start"),
      e: () => corrections.borderHere("end"),
      n: () => corrections.goOn(),
    };
    const type = /^[1-9]$/.test(event.key) ? this.types.atDigit(event.key) : undefined;
    const action = type ? () => corrections.assign(type) : actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    return action ? action() : false;
  }

  /** Ctrl and an arrow: to the next entity, or the one before. */
  jump(event) {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return false;
    const { row, at } = this.rows.at;
    const onwards = (event.key === "ArrowRight" ? 1 : -1) * this.rightwards(event) > 0;
    const starts = (this.queue.entitiesOf(this.queue.view[row]) ?? []).map((entity) => entity.start);
    const to = onwards ? starts.find((start) => start > at) : starts.findLast((start) => start < at);
    return to === undefined ? undefined : this.rows.focus(row, to);
  }

  /** Undo and redo, wherever one is but in a field, which has its own. */
  onTravel(event) {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || event.altKey || !["z", "y"].includes(key)) return;
    if (event.target.matches("textarea, input:not([type=checkbox]), select") || event.target.closest("dialog")) return;
    event.preventDefault();
    if (key === "y" || event.shiftKey) this.corrections.redo();
    else this.corrections.undo();
  }

  rightwards(event) {
    return getComputedStyle(event.target.closest("li").querySelector(".words")).direction === "ltr" ? 1 : -1;
  }

  /** One word on; past the edge of a sentence into its neighbour, unless words are being selected. */
  step(by, extending) {
    const { row, at } = this.rows.at;
    const inside = 0 <= at + by && at + by < this.queue.view[row].tokens.length;
    if (inside) this.move(at + by, extending);
    else if (!extending) this.rows.focus(row + by, by < 0 ? this.queue.view[row + by]?.tokens.length - 1 : 0);
  }

  move(to, extending) {
    const { row, at } = this.rows.at;
    const anchor = this.rows.selection?.anchor ?? at;
    this.rows.focus(row, to, { keep: extending });
    if (extending) this.rows.select(anchor, to);
  }
}
