// The window in which a type gets its guidelines, or is hidden.

import { byId } from "./dom.js";

const MOST = 1000; // letters

/** `used(type)`: does any tagger or label have the type? Such a type cannot be hidden. */
export class Guidelines {
  constructor({ types, history, used, onClose }) {
    Object.assign(this, { types, history, used, type: "" });
    this.box = byId("guidelines");
    byId("guidelines-text").maxLength = MOST;
    byId("guidelines-form").addEventListener("submit", (event) => this.onChoice(event.submitter.value));
    this.box.addEventListener("close", onClose);
  }

  open(type) {
    this.type = type;
    byId("guidelines-type").textContent = type;
    byId("guidelines-type").className = `chip ${this.types.colour(type)}`;
    byId("guidelines-text").value = this.types.get(type).guideline;
    byId("guidelines-hide").hidden = this.used(type);
    this.box.showModal();
    byId("guidelines-text").focus();
  }

  onChoice(choice) {
    if (choice === "cancel") return;
    const guideline = byId("guidelines-text").value.trim();
    const what = choice === "hide" ? `hiding “${this.type}”` : `guidelines of “${this.type}”`;
    this.history.step(what, null, () => this.types.put(this.type, choice === "hide" ? null : { guideline, hidden: false }));
  }
}
