// How two annotators agree: span F1 and kappa by type, to look at and to take home.

import * as api from "./api.js";
import { attempt, byId, count, fillSelect, make, percent } from "./dom.js";
import { ME } from "./state.js";

export class Agreement {
  /** `annotator()` is the one who is compared with the others first. */
  constructor({ types, annotator }) {
    Object.assign(this, { types, annotator });
    for (const id of ["agree-one", "agree-other"]) byId(id).addEventListener("change", () => attempt(() => this.compare()));
    for (const form of ["csv", "json"])
      byId(`agree-${form}`).addEventListener("click", (event) => attempt(() => this.download(form), event.target));
  }

  async refresh() {
    const names = (await api.annotators()).map((annotator) => annotator.name);
    byId("agreement").hidden = names.length < 2;
    byId("annotators").replaceChildren(...names.map((name) => make("option", { value: name })));
    if (names.length < 2) return;
    const mine = names.includes(this.annotator()) ? this.annotator() : names[0];
    const [one, other] = [byId("agree-one").value, byId("agree-other").value];
    fillSelect(byId("agree-one"), names, names.includes(one) ? one : mine);
    const others = names.filter((name) => name !== byId("agree-one").value);
    const second = names.includes(other) ? other : (others.find((name) => name !== ME) ?? others[0]);
    fillSelect(byId("agree-other"), names, second);
    await this.compare();
  }

  async compare() {
    const [one, other] = [byId("agree-one").value, byId("agree-other").value];
    const found = await api.agreement(one, other);
    const all = found.rows.at(-1);
    byId("agree-summary").textContent =
      found.sentences === 0
        ? `No sentence is accepted by both ${one} and ${other} yet.`
        : `${count(found.sentences, "sentence")} accepted by both, ${found.differing.length} of them not alike: ` +
          `F1 ${percent(all.f1)}, κ ${kappaText(all.kappa)}.`;
    byId("agree-table").hidden = found.sentences === 0;
    const head = ["type", "F1", "κ", one, other, "same"].map((name) => make("th", { scope: "col" }, name));
    const rows = found.rows.map((row, i) => this.row(row, i === found.rows.length - 1));
    byId("agree-table").replaceChildren(make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
    for (const form of ["csv", "json"]) byId(`agree-${form}`).disabled = found.sentences === 0;
  }

  row({ type, f1, kappa, one, other, both }, last) {
    const name = last ? "all types" : make("span", { class: `chip ${this.types.colour(type)}` }, type);
    const cells = [percent(f1), kappaText(kappa), one, other, both].map((value) => make("td", {}, String(value)));
    return make("tr", { class: last ? "sum" : null }, make("th", { scope: "row" }, name), ...cells);
  }

  download(form) {
    return api.downloadAgreement(byId("agree-one").value, byId("agree-other").value, form);
  }
}

/** Without a value where both gave every word the same label: chance explains it all. */
const kappaText = (kappa) => (kappa === null ? "–" : kappa.toFixed(2));
