// The small window in which words get a type.

import { byId, make } from "./dom.js";
import { wordsOf } from "./spans.js";

const NARROW = 480; // below this width the style sheet puts the menu at the foot of the screen

export class Menu {
  /** `types()` are the types to offer, in the order of their digits; `colour(type)` names their class. */
  constructor(types, colour) {
    Object.assign(this, { types, colour });
    this.box = byId("menu");
    this.input = byId("menu-new");
    this.request = null;
    byId("menu-close").addEventListener("click", () => this.close());
    byId("menu-remove").addEventListener("click", () => this.finish((request) => request.onRemove()));
    byId("menu-less").addEventListener("click", () => this.extend(-1));
    byId("menu-more").addEventListener("click", () => this.extend(1));
    byId("menu-form").addEventListener("submit", (event) => this.onNew(event));
    this.input.addEventListener("input", () => this.input.setCustomValidity(""));
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    this.box.addEventListener("focusout", (event) => {
      if (this.request && event.relatedTarget && !this.box.contains(event.relatedTarget)) this.close(false);
    });
    document.addEventListener("pointerdown", (event) => {
      if (this.request && !this.box.contains(event.target)) this.close(false);
    });
  }

  /** Ask. `request` has sentence, start, end, entity, near (a node), and onType, onRemove, onExtent, onClose. */
  open(request) {
    this.request = request;
    byId("menu-types").replaceChildren(...this.types().map((type, i) => this.typeButton(type, i)));
    byId("menu-remove").hidden = !request.entity;
    this.input.value = "";
    this.input.setCustomValidity("");
    this.tell();
    if (!this.box.open) this.box.show();
    this.putNear(request.near);
    (this.box.querySelector('[aria-pressed="true"]') ?? this.box.querySelector("#menu-types button") ?? this.input).focus({
      preventScroll: true,
    });
  }

  typeButton(type, i) {
    const digit = i < 9 ? make("kbd", {}, String(i + 1)) : null;
    const pressed = String(this.request.entity?.label === type);
    const choose = () => this.choose(type);
    return make("button", { type: "button", "aria-pressed": pressed, class: `chip ${this.colour(type)}`, on: { click: choose } }, digit, type);
  }

  tell() {
    const { sentence, start, end } = this.request;
    byId("menu-words").textContent = wordsOf(sentence, start, end);
    byId("menu-less").disabled = end - start === 1;
    byId("menu-more").disabled = end === sentence.tokens.length;
  }

  extend(by) {
    this.request.end += by;
    this.tell();
    this.putNear(this.request.onExtent(this.request.start, this.request.end));
  }

  choose(type) {
    this.finish((request) => request.onType(type, request.start, request.end));
  }

  onNew(event) {
    event.preventDefault();
    const name = this.input.value.trim();
    if (name && !/\s/.test(name)) return this.choose(name);
    this.input.setCustomValidity(name ? "A type is one word, such as side-effect." : "Name the type first.");
    this.input.reportValidity();
  }

  onKey(event) {
    if (event.key === "Escape") this.close();
    else if (event.target === this.input) return;
    else if (event.key === "Delete" && this.request.entity) byId("menu-remove").click();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.walk(event.key === "ArrowDown" ? 1 : -1);
    else if (/^[1-9]$/.test(event.key) && this.types()[event.key - 1]) this.choose(this.types()[event.key - 1]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  walk(by) {
    const stops = [...this.box.querySelectorAll("#menu-types button, input, #menu-remove:not([hidden]), #menu-close")];
    const at = stops.indexOf(document.activeElement);
    stops[(at + by + stops.length) % stops.length].focus();
  }

  finish(action) {
    const request = this.request;
    this.request = null;
    this.box.close();
    action(request);
  }

  close(giveBackFocus = true) {
    this.finish((request) => giveBackFocus && request?.onClose());
  }

  putNear(node) {
    const style = this.box.style;
    style.left = style.top = "";
    const word = node.getBoundingClientRect();
    const { top, width, height } = this.box.getBoundingClientRect();
    if (innerWidth < NARROW) {
      if (word.bottom > top - 12) scrollBy(0, word.bottom - top + 12); // out from under the menu
      return;
    }
    const left = Math.max(8, Math.min(word.left, document.documentElement.clientWidth - width - 8));
    const below = word.bottom + 6 + height < innerHeight || word.top < height + 6;
    style.left = `${left + scrollX}px`;
    style.top = `${(below ? word.bottom + 6 : word.top - height - 6) + scrollY}px`;
  }
}
