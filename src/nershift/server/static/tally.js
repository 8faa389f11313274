// Counts over the labels that each change keeps up to date, so that no key waits for all of them to be counted.

/** Sentences something was said of, those accepted, those of them without entities; and types of accepted entities. */
export class Tally {
  constructor() {
    Object.assign(this, { said: 0, accepted: 0, empty: 0, types: new Map() });
  }

  /** Count a record in (1), or out (-1). */
  count(record, by) {
    if (!record || record.deleted) return;
    this.said += by;
    if (!record.accepted) return;
    this.accepted += by;
    if (record.entities.length === 0) this.empty += by;
    for (const { label } of record.entities) this.types.set(label, (this.types.get(label) ?? 0) + by);
  }
}
