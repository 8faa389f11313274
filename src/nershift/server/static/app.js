// The page: paste text, see entities, correct them, adapt the tagger, look at what changed.

import { Adaptation } from "./adapt.js";
import * as api from "./api.js";
import { Compare } from "./compare.js";
import { attempt, byId, count, fillSelect, make, showError } from "./dom.js";
import { Labels } from "./labels.js";
import { Menu } from "./menu.js";
import { cut } from "./spans.js";
import { Versions } from "./versions.js";
import { Words } from "./words.js";

api.takeToken();
const labels = new Labels();
const versions = new Versions(onVersions);
const menu = new Menu(menuTypes, (type) => labels.colour(type));
const words = new Words(byId("sentences"), labels, { menu, types: menuTypes, guard, onNext: suggestNext });
const compare = new Compare(labels, () => (reviewing ? "" : labels.text));
const adaptation = new Adaptation(labels, versions, {
  onVersion: () => versions.refresh(),
  onEnd: () => versions.refresh(),
});
let reviewing = false; // the labelled sentences are shown in place of those of the text
let turn = 0; // answers to anything but the latest question are dropped

/** Types that words can get: those of the version in use and those the user has named. */
function menuTypes() {
  const offered = new Set([...versions.types, ...labels.types()]);
  return labels.order.filter((type) => offered.has(type));
}

function guard(action) {
  try {
    action();
  } catch (error) {
    showError(error);
  }
}

/** Tag what is shown with the version in use. */
async function tag() {
  const mine = ++turn;
  const entries = [...labels.entries.values()];
  const empty = reviewing ? entries.length === 0 : labels.text.trim() === "";
  const ask = () => (reviewing ? api.tagWords(entries.map((entry) => entry.tokens)) : api.tagText(labels.text));
  const answer = empty ? { results: [] } : await ask();
  if (mine !== turn) return;
  const sentences = answer.results.flatMap((result, i) =>
    reviewing ? cut(result, null).map((made) => ({ ...made, gaps: entries[i].gaps })) : cut(result, labels.text),
  );
  words.show(sentences);
  const found = sentences.reduce((sum, sentence) => sum + sentence.predicted.length, 0);
  const predicted = `${count(found, "entity", "entities")} predicted by ${answer.model}`;
  byId("status").textContent = empty ? "" : `${count(sentences.length, "sentence")}, ${predicted}`;
}

async function onVersions(changed) {
  labels.arrange(versions.allTypes);
  compare.offer(versions.names);
  renderLabels();
  if (!changed) return;
  await tag();
  await compare.refresh();
}

function renderLabels() {
  const given = labels.given();
  const empty = given.filter((sentence) => sentence.entities.length === 0).length;
  byId("labels-count").textContent =
    count(given.length, "checked sentence") + (empty ? `, ${empty} of them without entities` : "");
  const chip = (type) => make("span", { class: `chip ${labels.colour(type)}` }, type);
  byId("labels-types").replaceChildren(
    ...[...labels.counts()].map(([type, number]) => make("li", {}, chip(type), ` ${number}`)),
  );
  byId("legend").replaceChildren(
    ...menuTypes().map((type, i) => make("li", {}, i < 9 ? make("kbd", {}, String(i + 1)) : null, chip(type))),
  );
  byId("review").disabled = !reviewing && labels.entries.size === 0;
  byId("review").textContent = reviewing ? "Show the text" : "Show labelled sentences";
  byId("export-form").querySelector("button").disabled = given.length === 0;
  byId("forget").hidden = labels.entries.size === 0;
  adaptation.render();
}

/** Ask which sentences without labels the tagger is least sure of, and go to the first. */
function suggestNext() {
  return attempt(async () => {
    const open = words.sentences.filter((sentence) => !labels.isChecked(sentence));
    if (open.length === 0) byId("status").textContent = "every sentence here is checked";
    const order = open.length > 0 ? await api.suggest(open) : [];
    words.suggest(order.map((sentence) => words.sentences.indexOf(sentence)));
  }, byId("next"));
}

byId("tag-form").addEventListener("submit", (event) => {
  event.preventDefault();
  reviewing = false;
  attempt(async () => {
    labels.remember({ text: byId("text").value });
    await tag();
    await versions.refresh(); // another page may have adapted meanwhile
    await compare.refresh();
  }, event.submitter);
});

byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("tag-form").requestSubmit();
});

byId("review").addEventListener("click", () => {
  reviewing = !reviewing;
  renderLabels();
  attempt(async () => {
    await tag();
    await compare.refresh();
  });
});

byId("next").addEventListener("click", suggestNext);

byId("export-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(() => api.exportLabels(labels.given(), byId("export-format").value), event.submitter);
});

byId("forget").addEventListener("click", () => {
  byId("confirm-text").textContent = `Delete the labels of ${count(labels.entries.size, "sentence")}?`;
  byId("confirm").returnValue = "no";
  byId("confirm").showModal();
});

byId("confirm").addEventListener("close", () => {
  if (byId("confirm").returnValue !== "yes") return;
  guard(() => labels.forget());
  words.renderAll();
});

labels.addEventListener("change", () => {
  labels.arrange(versions.allTypes);
  renderLabels();
  compare.render();
});
addEventListener("storage", () => words.renderAll()); // another tab has changed the labels

byId("text").value = labels.text;
renderLabels();
await attempt(async () => {
  await versions.refresh();
  fillSelect(byId("export-format"), await api.formats());
});
