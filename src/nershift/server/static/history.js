// What was done, step by step, to be undone and done again.

import { same } from "./types.js";

const MOST = 1000; // steps that are remembered

/**
 * A step is {what, where, changes}: a few words for people, the sentence it happened in, and what each value was before
 * and after. `keepers` are things with get(key), put(key, value) and a recorder: labels and types.
 */
export class History extends EventTarget {
  constructor(...keepers) {
    super();
    this.forget();
    for (const keeper of keepers)
      keeper.recorder = (key, before, after) => this.changes?.push({ keeper, key, before, after });
  }

  forget() {
    Object.assign(this, { done: [], undone: [], changes: null });
    this.tell();
  }

  tell() {
    this.dispatchEvent(new Event("change"));
  }

  /** Carry out `action` as one step. */
  step(what, where, action) {
    const changes = (this.changes = []);
    action();
    this.changes = null;
    if (changes.length > 0) {
      this.done.push({ what, where, changes });
      if (this.done.length > MOST) this.done.shift();
      this.undone = [];
    }
    this.tell();
  }

  /** Keys that were changed by what can be undone. */
  touched(keeper) {
    const changes = this.done.flatMap((step) => step.changes);
    return new Set(changes.filter((change) => change.keeper === keeper).map((change) => change.key));
  }

  undo() {
    return this.move(this.done, this.undone, (change) => [change.after, change.before]);
  }

  redo() {
    return this.move(this.undone, this.done, (change) => [change.before, change.after]);
  }

  /** Take the last step of one list, turn it round and put it on the other. What was changed elsewhere since stays. */
  move(from, to, sides) {
    const step = from.pop();
    if (!step) return null;
    const elsewhere = step.changes.filter(({ keeper, key, ...change }) => !same(keeper.get(key), sides(change)[0]));
    const mine = step.changes.filter((change) => !elsewhere.includes(change));
    for (const { keeper, key, ...change } of [...mine].reverse()) keeper.put(key, sides(change)[1]);
    if (mine.length > 0) to.push({ ...step, changes: mine });
    this.tell();
    return { ...step, complete: elsewhere.length === 0 };
  }
}
