// Labels and types go to the server as they change, and those of other browsers come back.

import * as api from "./api.js";
import { showError } from "./dom.js";

const SOON = 300; // milliseconds after a change
const OFTEN = 20_000; // between questions whether others have changed something
const [RETRY, LATEST_RETRY] = [2_000, 60_000];
const [MOST, MOST_LETTERS] = [100, 200_000]; // of a request
const FINAL = [413, 422]; // answers that no waiting changes

/** `onState(text, late)` hears how much of what was said is on the server, and whether some of it is late. */
export class Sync {
  constructor({ labels, types, store, onState }) {
    Object.assign(this, { labels, types, store, onState, timer: null, running: null, wait: RETRY, refused: new Map() });
    this.withTypes = true; // until the server refuses them: labels do not wait for that
    labels.addEventListener("change", () => this.soon());
    types.addEventListener("change", () => this.soon());
    addEventListener("online", () => this.soon());
    document.addEventListener("visibilitychange", () => this.soon());
    setInterval(() => document.hidden || this.soon(), OFTEN);
  }

  soon(wait = SOON) {
    this.tell();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.exchange(), wait);
  }

  /** Send and fetch until both sides have everything. Failures are told once, and tried again later. */
  exchange() {
    this.running ??= this.attempt().finally(() => {
      this.running = null;
      this.tell();
    });
    return this.running;
  }

  async attempt() {
    try {
      while (await this.part());
      this.wait = RETRY;
    } catch (error) {
      if (error.status !== 0) showError(error);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.exchange(), this.wait);
      this.wait = Math.min(2 * this.wait, LATEST_RETRY);
    }
  }

  /** One request; whether there is more to say or to hear. */
  async part() {
    const { labels, types } = this;
    const annotator = labels.annotator;
    const place = `sync/${encodeURIComponent(annotator)}`;
    const known = this.store.read(place) ?? { id: "", at: 0, types_at: 0 };
    const [sent, named] = [this.next(), this.typesWaiting().slice(0, MOST)];
    const answer = await this.send({ annotator, ...known, records: sent.map(plain), types: named.map(plainType) }, sent);
    if (labels.annotator !== annotator) return true;
    if (answer === null) return true;
    const { id, at, types_at, more, records } = answer;
    if (known.id && known.id !== id) for (const keeper of [labels, types]) keeper.sendAll();
    labels.confirm(sent);
    types.confirm(named);
    types.take(answer.types);
    labels.take(records);
    this.store.write(place, { id, at, types_at });
    return more || this.waiting().length > 0 || this.typesWaiting().length > 0;
  }

  /** What is sent next: a few records, or one alone of those that were refused together. */
  next() {
    const waiting = this.waiting();
    const alone = waiting.find(([key]) => this.refused.get(key) === "together");
    if (alone) return [alone];
    let letters = 0;
    const fits = ([, { tokens }]) => (letters += tokens.join("").length + 60 * tokens.length) < MOST_LETTERS;
    const chosen = waiting.slice(0, MOST).filter(fits);
    return chosen.length > 0 ? chosen : waiting.slice(0, 1);
  }

  waiting() {
    return this.labels.unsent().filter(([key, record]) => this.refused.get(key) !== record.changed);
  }

  typesWaiting() {
    return this.withTypes ? this.types.unsent() : [];
  }

  /** The answer; null if types were refused, or records were refused, of which all but the guilty are sent again. */
  async send(request, sent) {
    try {
      return await api.sync(request);
    } catch (error) {
      if (!FINAL.includes(error.status)) throw error;
      if (request.types.length > 0) {
        this.withTypes = false;
        showError(error);
      } else if (sent.length === 0) throw error;
      else if (sent.length === 1) {
        this.refused.set(sent[0][0], sent[0][1].changed);
        showError(error);
      } else for (const [key] of sent) this.refused.set(key, "together");
      return null;
    }
  }

  tell() {
    const open = this.labels.late.size;
    const late = open > 0 && this.wait > RETRY; // sending has failed
    this.onState(open === 0 ? "on the server" : `${open} in this browser only`, late);
  }
}

const plain = ([, { tokens, gaps, entities, accepted, deleted, changed }]) =>
  deleted ? { tokens, deleted, changed } : { tokens, gaps, entities, accepted, changed };

const plainType = ({ name, guideline, hidden, changed = 0 }) => ({ name, guideline, hidden, changed });
