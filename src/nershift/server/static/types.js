// Entity types. The place of a type in the list decides its colour and its key, so no type ever leaves its place.

const COLOURS = 10;
const KEYS = 9;

/**
 * `list` has {name, guideline, hidden} in the order in which types were first seen, with `changed`, the time of the last
 * change by a person, and `unsent` while the server has not confirmed it. A type nobody wants is hidden, not taken out.
 * `recorder(key, before, after)` hears of each change by the user, so that it can be undone.
 */
export class Types extends EventTarget {
  constructor(store) {
    super();
    Object.assign(this, { store, recorder: () => {} });
    this.load();
    store.watch((name) => {
      if (name !== "types" && name !== "") return;
      this.load();
      this.dispatchEvent(new Event("change"));
    });
  }

  load() {
    this.list = this.store.read("types") ?? [];
    this.places = new Map(this.list.map(({ name }, place) => [name, place]));
  }

  /** {guideline, hidden} of a type; null for one that was never named, or was and is hidden without a guideline. */
  get(name) {
    const type = this.list[this.places.get(name)];
    return type && (type.guideline || !type.hidden) ? { guideline: type.guideline, hidden: type.hidden } : null;
  }

  /** Give a type a guideline, hide or show it. One that is not there yet gets the next place; null hides it. */
  put(name, value) {
    const before = this.get(name);
    if (same(before, value)) return;
    const { changed = 0 } = this.list[this.places.get(name)] ?? {};
    this.set(name, { ...(value ?? { guideline: "", hidden: true }), changed: Math.max(Date.now(), changed + 1), unsent: true });
    this.recorder(name, before, value);
    this.save();
  }

  /** Types that were seen, in a tagger or in labels: they have a place from now on, and are offered. */
  see(names) {
    const news = [...names].filter((name) => this.get(name)?.hidden !== false);
    for (const name of news) {
      const { guideline = "", changed = 0, unsent = true } = this.list[this.places.get(name)] ?? {};
      this.set(name, { guideline, hidden: false, changed, unsent });
    }
    if (news.length > 0) this.save();
  }

  unsent() {
    return this.list.filter((type) => type.unsent !== false);
  }

  confirm(sent) {
    for (const { name, changed = 0 } of sent) {
      const type = this.list[this.places.get(name)];
      if ((type.changed ?? 0) === changed) type.unsent = false;
    }
    if (sent.length > 0) this.store.write("types", this.list);
  }

  sendAll() {
    for (const type of this.list) type.unsent = true;
  }

  /** Types that others have: new ones get the next places, guidelines that are newer count. */
  take(records) {
    const newer = ({ name, changed }) => changed > (this.list[this.places.get(name)]?.changed ?? -1);
    const news = records.filter((record) => !this.places.has(record.name) || newer(record));
    for (const { name, guideline, hidden, changed } of news) this.set(name, { guideline, hidden, changed, unsent: false });
    if (news.length > 0) this.save();
  }

  set(name, value) {
    const place = this.places.get(name) ?? this.list.length;
    this.list[place] = { name, ...value };
    this.places.set(name, place);
  }

  save() {
    this.store.write("types", this.list);
    this.dispatchEvent(new Event("change"));
  }

  /** Names of the types that words can get. */
  offered() {
    return this.list.filter((type) => !type.hidden).map((type) => type.name);
  }

  colour(name) {
    if (!this.places.has(name)) this.see([name]);
    return `t${this.places.get(name) % COLOURS}`;
  }

  /** The key of a type, "1" to "9"; "" past the ninth. */
  digit(name) {
    const place = this.places.get(name);
    return place < KEYS ? String(place + 1) : "";
  }

  atDigit(digit) {
    const type = this.list[Number(digit) - 1];
    return type && !type.hidden ? type.name : undefined;
  }
}

export const same = (one, other) => JSON.stringify(one) === JSON.stringify(other);
