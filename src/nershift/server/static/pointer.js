// Mouse, pen and finger in the sentences: choosing words, and dragging the borders of entities.

/** A click chooses an entity or a word, a second one the word alone; a drag chooses words or, from a handle, a border. */
export class Pointer {
  constructor({ rows, queue, corrections }) {
    Object.assign(this, { rows, queue, corrections, dragging: null, touched: false, second: false });
    const { root } = rows;
    root.addEventListener("pointerdown", (event) => this.onDown(event));
    root.addEventListener("pointermove", (event) => this.onMove(event));
    root.addEventListener("click", (event) => this.onClick(event));
    root.addEventListener("change", (event) => {
      if (event.target.dataset.act === "accept") this.onTick(event.target);
    });
    // A finger on a handle must not scroll. (A style cannot say so of something inside a line.)
    root.addEventListener("touchstart", (event) => event.target.closest(".grip") && event.preventDefault(), { passive: false });
    addEventListener("pointerup", () => this.drop());
    addEventListener("pointercancel", () => this.cancel());
  }

  onDown(event) {
    this.touched = event.pointerType === "touch"; // a finger scrolls, and chooses by tapping
    if (event.button !== 0) return;
    const [grip, word] = [event.target.closest(".grip"), event.target.closest(".word")];
    // Asked now: the browser moves the focus to the word before it tells of a click.
    this.second = word !== null && this.again(this.rows.rowOf(word), Number(word.dataset.at));
    if (grip) this.takeGrip(event, grip);
    else if (word && !this.touched) this.takeWord(event, word);
  }

  takeGrip(event, grip) {
    event.preventDefault();
    const row = this.rows.rowOf(grip);
    this.rows.focus(row, Number(grip.parentElement.dataset.at));
    const { entity } = this.rows.subject();
    this.dragging = { row, entity, edge: grip.dataset.edge, start: entity.start, end: entity.end };
    this.rows.root.setPointerCapture(event.pointerId); // drawing the sentence anew must not end the drag
  }

  takeWord(event, word) {
    event.preventDefault(); // no native selection across the words
    const [row, at] = [this.rows.rowOf(word), Number(word.dataset.at)];
    const extending = event.shiftKey && this.rows.at?.row === row && this.rows.entered;
    const anchor = extending ? (this.rows.selection?.anchor ?? this.rows.at.at) : at;
    const again = this.second && !extending;
    this.rows.focus(row, at);
    if (extending) this.rows.select(anchor, at);
    this.dragging = { row, anchor, head: at, again };
  }

  /** Is this a second click on a word of an entity, which is chosen as a whole? */
  again(row, at) {
    const subject = this.rows.subject();
    return subject?.row === row && subject.at === at && subject.entity !== undefined && !subject.chosen;
  }

  onMove(event) {
    const drag = this.dragging;
    if (!drag) return;
    const at = this.wordAt(drag.row, event.clientX, event.clientY);
    if (drag.entity) this.pull(drag, at);
    else if (at !== drag.head) {
      drag.head = at;
      this.rows.focus(drag.row, at, { keep: true });
      this.rows.select(drag.anchor, at);
    }
  }

  pull(drag, at) {
    if (drag.edge === "start") drag.start = Math.min(at, drag.entity.end - 1);
    else drag.end = Math.max(at + 1, drag.entity.start + 1);
    this.rows.mark([drag.start, drag.end]);
  }

  drop() {
    const drag = this.dragging;
    this.dragging = null;
    if (!drag) return;
    if (drag.entity) {
      this.rows.mark();
      this.corrections.setBorders(drag.row, drag.entity, drag.start, drag.end);
    } else if (drag.again && drag.head === drag.anchor) this.rows.select(drag.anchor, drag.anchor);
  }

  cancel() {
    if (this.dragging) this.rows.mark();
    this.dragging = null;
  }

  /** The word of a sentence that lies nearest to a point: its line first, then how far along it. */
  wordAt(row, x, y) {
    let [found, least] = [0, Infinity];
    for (const node of this.rows.items[row].querySelectorAll(".word")) {
      for (const box of node.getClientRects()) {
        const [across, along] = [Math.max(box.top - y, 0, y - box.bottom), Math.max(box.left - x, 0, x - box.right)];
        const distance = 1000 * across + along;
        if (distance < least) [found, least] = [Number(node.dataset.at), distance];
      }
    }
    return found;
  }

  onClick(event) {
    const word = event.target.closest(".word");
    if (event.target.dataset.act === "reset") this.corrections.reset(this.rows.rowOf(event.target));
    else if (word && this.touched) this.tap(this.rows.rowOf(word), Number(word.dataset.at));
  }

  tap(row, at) {
    this.rows.focus(row, at);
    if (this.second) this.rows.select(at, at);
  }

  onTick(box) {
    const row = this.rows.rowOf(box);
    const wanted = box.checked;
    if (!this.corrections.accept(row, wanted)) box.checked = !wanted;
  }
}
