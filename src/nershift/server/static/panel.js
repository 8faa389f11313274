// Beside the sentences: what is chosen, what can be done to it, and the types with their keys and guidelines.

import { byId, make } from "./dom.js";
import { describe } from "./paint.js";
import { wordsOf } from "./spans.js";

/** `counts()` says how often each type is among the labels; `edit(type)` opens its guidelines. */
export class Panel {
  constructor({ rows, types, corrections, counts, edit }) {
    Object.assign(this, { rows, types, corrections, counts, edit });
    this.box = byId("panel");
    this.input = byId("new-type");
    this.inStrip = matchMedia("(max-width: 56rem)"); // as correct.css has it
    for (const [id, edge, by] of [
      ["start-left", "start", -1],
      ["start-right", "start", 1],
      ["end-left", "end", -1],
      ["end-right", "end", 1],
    ])
      byId(id).addEventListener("click", () => corrections.nudge(edge, by));
    byId("remove").addEventListener("click", () => corrections.remove());
    byId("new-type-form").addEventListener("submit", (event) => this.onNew(event));
    this.input.addEventListener("input", () => this.input.setCustomValidity(""));
    this.box.addEventListener("keydown", (event) => this.onKey(event));
    byId("types").addEventListener("click", (event) => this.onClick(event.target));
  }

  /** The types, each a button; drawn when there are new ones, or other counts. */
  drawTypes() {
    const back = this.box.contains(document.activeElement) ? document.activeElement.dataset : {};
    const counts = this.counts();
    byId("types").replaceChildren(...this.types.offered().map((type) => this.typeItem(type, counts.get(type) ?? 0)));
    if (back.type || back.edit) this.typeButton(back.type ?? back.edit, back.edit ? "edit" : "type")?.focus();
    this.drawSubject();
  }

  typeItem(type, number) {
    const { guideline } = this.types.get(type);
    const digit = this.types.digit(type);
    const button = make(
      "button",
      { type: "button", class: `chip ${this.types.colour(type)}`, "aria-pressed": "false", dataset: { type } },
      digit ? make("kbd", {}, digit) : null,
      type,
    );
    const link = { type: "button", class: "link", "aria-label": `Guidelines of ${type}`, dataset: { edit: type } };
    const edit = make("button", link, "guidelines");
    return make(
      "li",
      {},
      make("div", { class: "type-row" }, button, make("span", { class: "hint" }, number ? `${number} labelled` : ""), edit),
      guideline ? make("p", { class: "guideline" }, guideline) : null,
    );
  }

  typeButton(name, kind = "type") {
    return [...byId("types").querySelectorAll("button")].find((button) => button.dataset[kind] === name);
  }

  /** What is chosen, and which of the controls can be used. */
  drawSubject() {
    const subject = this.rows.subject();
    const { sentence, start, end, entity, chosen } = subject ?? {};
    byId("chosen").textContent = subject ? wordsOf(sentence, start, end) : "nothing chosen";
    byId("chosen-what").textContent = entity ? `${entity.label}, ${describe(entity)}` : subject ? "no entity" : "";
    byId("chosen-guideline").textContent = this.types.get(entity?.label)?.guideline ?? "";
    byId("remove").disabled = !entity;
    const last = sentence?.tokens.length;
    const [longer, several] = [end < last, end - start > 1];
    const able = { "start-left": start > 0, "start-right": several, "end-left": several, "end-right": longer };
    for (const [id, can] of Object.entries(able)) byId(id).disabled = !subject || !can;
    for (const button of byId("types").querySelectorAll("[data-type]"))
      button.ariaPressed = String(!chosen && entity?.label === button.dataset.type);
    if (entity && !chosen && this.inStrip.matches) this.bringIntoSight(entity.label);
  }

  /** On a small screen the types are a strip that scrolls. */
  bringIntoSight(type) {
    const [strip, item] = [byId("types"), this.typeButton(type)?.closest("li")];
    if (!item) return;
    const [seen, own] = [strip.getBoundingClientRect(), item.getBoundingClientRect()];
    if (own.right > seen.right) strip.scrollLeft += own.right - seen.right;
    if (own.left < seen.left) strip.scrollLeft += own.left - seen.left;
  }

  /** From the words to the types, by the keyboard. */
  enter() {
    const buttons = byId("types");
    (buttons.querySelector('[aria-pressed="true"]') ?? buttons.querySelector("[data-type]") ?? this.input).focus();
  }

  onClick(target) {
    const { type, edit } = target.closest("button")?.dataset ?? {};
    if (type) this.corrections.assign(type);
    else if (edit) this.edit(edit);
  }

  onNew(event) {
    event.preventDefault();
    const name = this.input.value.trim();
    const fault = faultOf(name);
    this.input.setCustomValidity(fault);
    if (fault) return this.input.reportValidity();
    this.input.value = "";
    return this.corrections.assign(name);
  }

  onKey(event) {
    const inField = event.target === this.input;
    if (event.key === "Escape") this.rows.refocus();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.walk(event.key === "ArrowDown" ? 1 : -1);
    else if (inField || event.ctrlKey || event.metaKey || event.altKey) return;
    else if (event.key === "Delete") this.corrections.remove();
    else if (/^[1-9]$/.test(event.key) && this.types.atDigit(event.key)) this.corrections.assign(this.types.atDigit(event.key));
    else return;
    event.preventDefault();
  }

  walk(by) {
    const stops = [...this.box.querySelectorAll("[data-type], #new-type")];
    const at = stops.indexOf(document.activeElement);
    stops[(at + by + stops.length) % stops.length].focus();
  }
}

/** What is wrong with the name of a type; "" when it can be one. */
function faultOf(name) {
  if (!name) return "Name the type first.";
  if (/\s/.test(name)) return "A type is one word, such as side-effect.";
  return name === "O" ? "O means no entity." : "";
}
