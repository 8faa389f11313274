// The versions the server keeps: which one is in use, going back to another, taking one home.

import * as api from "./api.js";
import { attempt, byId, make, percent } from "./dom.js";

/** "81 ± 4 %" with the number of folds, or "" when there is no estimate. */
export function f1Text(f1) {
  if (!f1) return "";
  const spread = f1.sd === undefined || f1.sd === null ? "" : ` ± ${Math.round(100 * f1.sd)}`;
  const folds = Array.isArray(f1.folds) ? f1.folds.length : f1.folds;
  return `F1 ${percent(f1.mean).replace(" %", `${spread} %`)}` + (folds ? `, ${folds} folds` : "");
}

export class Versions {
  /** `onChange(models)` hears what the server says of its versions, each time it is asked. */
  constructor(onChange) {
    Object.assign(this, { onChange, list: [], current: "" });
  }

  async refresh() {
    await this.take(await api.models());
  }

  async take({ current, versions }) {
    const changed = current !== this.current;
    Object.assign(this, { list: versions, current });
    this.render();
    await this.onChange(changed);
  }

  get names() {
    return this.list.map((version) => version.name);
  }

  /** Types that the version in use predicts. */
  get types() {
    return this.list.find((version) => version.name === this.current)?.labels ?? [];
  }

  /** Types that any version predicts. */
  get allTypes() {
    return [...new Set([...this.types, ...this.list.flatMap((version) => version.labels)])];
  }

  render() {
    byId("serving").replaceChildren("version ", make("b", {}, this.current), ` · ${this.types.length} types`);
    byId("versions").replaceChildren(...[...this.list].reverse().map((version) => this.item(version)));
  }

  item(version) {
    const { name, labels, method, created, parent, note, f1 } = version;
    const inUse = name === this.current;
    const use = make(
      "button",
      { type: "button", "aria-label": `Use version ${name}`, on: { click: (event) => this.use(name, event.target) } },
      "Use",
    );
    const take = make(
      "button",
      { type: "button", "aria-label": `Download version ${name}`, on: { click: (event) => this.download(name, event.target) } },
      "Download",
    );
    const when = created ? new Date(created).toLocaleString([], { dateStyle: "medium", timeStyle: "short" }) : "";
    const facts = [method, parent && `from ${parent}`, when].filter(Boolean).join(" · ");
    const lines = [f1Text(f1), note, labels.join(", ")].filter(Boolean);
    return make(
      "li",
      { class: inUse ? "current" : undefined, "aria-current": inUse ? "true" : undefined, dataset: { name } },
      make("div", { class: "row" }, make("b", {}, name), inUse ? make("span", { class: "badge" }, "in use") : use, take),
      make("p", { class: "hint" }, facts),
      ...lines.map((line) => make("p", {}, line)),
    );
  }

  use(name, button) {
    attempt(async () => {
      await this.take(await api.chooseModel(name));
      byId("versions").querySelector(".current button").focus(); // the pressed one is gone
    }, button);
  }

  download(name, button) {
    attempt(() => api.downloadTagger(name), button);
  }
}
