// What the browser keeps, in pieces: a change to one sentence writes that sentence alone.

const ROOT = "nershift/";

export class BrowserStore {
  /** `onFull(error)` hears when the browser takes no more; the page goes on without. */
  constructor(onFull, storage = localStorage) {
    Object.assign(this, { onFull, storage });
  }

  /** The value kept under a name; null when there is none, or when it was written by something else. */
  read(name) {
    try {
      return JSON.parse(this.storage.getItem(ROOT + name));
    } catch {
      return null;
    }
  }

  /** Whether the value is kept. */
  write(name, value) {
    try {
      this.storage.setItem(ROOT + name, JSON.stringify(value));
      return true;
    } catch {
      const error = new Error("The browser keeps no more labels: its storage is full or switched off.");
      error.fix = "Export the labels now; they are lost when the page is closed.";
      this.onFull(error);
      return false;
    }
  }

  remove(name) {
    this.storage.removeItem(ROOT + name);
  }

  /** Everything whose name begins with `prefix`: [rest of the name, value]. */
  under(prefix) {
    const names = Object.keys(this.storage).filter((name) => name.startsWith(ROOT + prefix));
    return names.map((name) => [name.slice(ROOT.length + prefix.length), this.read(name.slice(ROOT.length))]);
  }

  /** Hear the name of whatever another tab writes; "" when it has emptied the storage. */
  watch(listener) {
    addEventListener("storage", ({ key }) => {
      if (key === null || key.startsWith(ROOT)) listener(key === null ? "" : key.slice(ROOT.length));
    });
  }
}
