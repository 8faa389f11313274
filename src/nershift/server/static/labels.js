// What the user has said so far, kept in the browser: a reload, or a restart of the server, loses nothing.

const PLACE = "nershift";
const FORM = 1; // of what is stored

/**
 * Labels by sentence, the text, and what is going on. An entry is {tokens, gaps, entities, checked}; only checked
 * entries are labels, the others are drafts. Listeners of "change" hear of every change, from other tabs too.
 */
export class Labels extends EventTarget {
  constructor(storage = localStorage) {
    super();
    this.storage = storage;
    this.named = new Set(); // types used since the page was opened: offered even when their last entity is gone
    this.load();
    addEventListener("storage", (event) => {
      if (event.key !== PLACE) return;
      this.load();
      this.dispatchEvent(new Event("change"));
    });
  }

  load() {
    let stored = null;
    try {
      stored = JSON.parse(this.storage.getItem(PLACE));
    } catch {
      // Written by something else: nothing of ours to keep.
    }
    if (stored?.form !== FORM) stored = {};
    this.text = stored.text ?? "";
    this.entries = new Map(stored.entries ?? []);
    this.order = stored.order ?? []; // of types: it decides colours and digits
    this.job = stored.job ?? null; // {name, before}
    this.compared = stored.compared ?? null; // {before, after}
  }

  /** Write everything down. Throws when the browser's storage is full or forbidden. */
  save() {
    const { text, order, job, compared } = this;
    const stored = { form: FORM, text, entries: [...this.entries], order, job, compared };
    try {
      this.storage.setItem(PLACE, JSON.stringify(stored));
    } catch {
      const error = new Error("The browser keeps no more labels: its storage is full or switched off.");
      error.fix = "Export the labels now; they are lost when the page is closed.";
      throw error;
    } finally {
      this.dispatchEvent(new Event("change"));
    }
  }

  remember(values) {
    Object.assign(this, values);
    this.save();
  }

  /** The entities to show for a sentence: the user's, or else the tagger's. */
  entitiesOf(sentence) {
    return this.entries.get(sentence.key)?.entities ?? sentence.predicted;
  }

  isChecked(sentence) {
    return this.entries.get(sentence.key)?.checked ?? false;
  }

  /** Correct a sentence. Whoever corrects one has read it, so it counts as checked. */
  correct(sentence, entities) {
    const { key, tokens, gaps } = sentence;
    this.entries.set(key, { tokens, gaps, entities, checked: true });
    for (const { label } of entities) this.named.add(label);
    this.save();
  }

  /** Tick a sentence or take the tick away. A draft equal to the prediction says nothing and is dropped. */
  check(sentence, checked) {
    const entities = this.entitiesOf(sentence);
    const drafted = JSON.stringify(entities) !== JSON.stringify(sentence.predicted);
    const { key, tokens, gaps } = sentence;
    if (checked || drafted) this.entries.set(key, { tokens, gaps, entities, checked });
    else this.entries.delete(key);
    this.save();
  }

  reset(sentence) {
    this.entries.delete(sentence.key);
    this.save();
  }

  forget() {
    this.entries.clear();
    this.named.clear();
    this.save();
  }

  /** Checked sentences as the server takes them. */
  given() {
    return [...this.entries.values()]
      .filter((entry) => entry.checked)
      .map(({ tokens, entities }) => ({
        tokens,
        entities: entities.map(({ start, end, label }) => ({ token_start: start, token_end: end, label })),
      }));
  }

  /** How often each type was given, in the order of types. */
  counts() {
    const counts = new Map(this.order.map((type) => [type, 0]));
    for (const { entities } of this.given())
      for (const { label } of entities) counts.set(label, (counts.get(label) ?? 0) + 1);
    return new Map([...counts].filter(([, number]) => number > 0));
  }

  /** Types in use by the user. */
  types() {
    const used = [...this.entries.values()].flatMap((entry) => entry.entities.map((entity) => entity.label));
    return new Set([...used, ...this.named]);
  }

  /** Give every type its place, once and for all, so that colours stay when versions change. */
  arrange(known) {
    const used = this.types();
    const kept = this.order.filter((type) => known.includes(type) || used.has(type));
    this.order = [...new Set([...kept, ...known, ...used])];
  }

  colour(type) {
    if (!this.order.includes(type)) this.order.push(type);
    return `t${this.order.indexOf(type) % 10}`;
  }
}
