// The page: get text, see entities, correct them, adapt the tagger, look at what changed.

import { Adaptation } from "./adapt.js";
import { Agreement } from "./agreement.js";
import { Annotator } from "./annotator.js";
import * as api from "./api.js";
import { Compare } from "./compare.js";
import { Corrections } from "./correct.js";
import { ask, attempt, byId, count, fillSelect, showError } from "./dom.js";
import { Files } from "./files.js";
import { Guidelines } from "./guidelines.js";
import { History } from "./history.js";
import { Keys } from "./keys.js";
import { Labels } from "./labels.js";
import { migrate } from "./migrate.js";
import { Panel } from "./panel.js";
import { Pointer } from "./pointer.js";
import { Predictions } from "./predictions.js";
import { Queue } from "./queue.js";
import { Rows } from "./rows.js";
import { sentenceOf } from "./spans.js";
import { ME, PageState } from "./state.js";
import { Steps } from "./steps.js";
import { BrowserStore } from "./store.js";
import { Summary } from "./summary.js";
import { Sync } from "./sync.js";
import { Types } from "./types.js";
import { Versions } from "./versions.js";

api.takeToken();
const store = new BrowserStore(showError);
migrate(store, ME);
const state = new PageState(store);
const labels = new Labels(store, state.annotator);
const types = new Types(store);
const history = new History(labels, types);
const predictions = new Predictions();
const queue = new Queue(labels, predictions, state);
const rows = new Rows(byId("sentences"), queue, { labels, types, onMove: () => panel?.drawSubject() });
const corrections = new Corrections({ labels, types, history, queue, rows, tell });
const versions = new Versions(onVersions);
const steps = new Steps(state, onStep);
const files = new Files({ annotator: () => labels.annotator, onOpen: open, onChange: drawSoon });
const summary = new Summary({ labels, types, queue, history, steps, versions, files });
const guidelines = new Guidelines({ types, history, used, onClose: () => rows.refocus() });
const panel = new Panel({ rows, types, corrections, counts: () => summary.counts(), edit: (type) => guidelines.open(type) });
new Keys({ rows, queue, corrections, types, enterPanel: () => panel.enter() });
new Pointer({ rows, queue, corrections });
const compare = new Compare({ labels, types, queue, predictions, state });
const adaptation = new Adaptation({ labels, versions, state, onVersion: () => versions.refresh(), onEnd: () => versions.refresh() });
const sync = new Sync({ labels, types, store, onState: (text, late) => summary.saved(text, late) });
const agreement = new Agreement({ types, annotator: () => labels.annotator });
new Annotator({ labels, state, history, sync, onChange: onAnnotator });
let turn = 0; // answers to anything but the latest question are dropped
let drawing = false;
let opening = 0; // sources that are about to be shown, so a new version need not show the one before

function tell(text) {
  byId("status").textContent = text;
}

/** Does a tagger or a label have the type? */
function used(type) {
  return versions.allTypes.includes(type) || labels.types().has(type);
}

/** Draw all that depends on labels and types, once for all the changes of a moment. */
function drawSoon() {
  if (drawing) return;
  drawing = true;
  queueMicrotask(() => {
    drawing = false;
    summary.draw();
    panel.drawTypes();
    adaptation.render();
  });
}

// --- the sentences

/** Get the sentences of the chosen source, and what the version in use predicts; `onTaken` is called in between. */
async function load(onTaken = () => {}) {
  const mine = ++turn;
  tell("");
  queue.version = versions.current;
  const sentences = await sentencesOf(state.source);
  if (mine !== turn) return;
  queue.take(sentences);
  rows.show();
  drawSoon();
  onTaken();
  await fill(mine);
}

async function sentencesOf(source) {
  if (source === "text") return predictions.read(state.text, queue.version);
  if (source === "labelled") return labels.entries().map(([, { tokens, gaps }]) => sentenceOf(tokens, gaps));
  try {
    return await files.sentences(source);
  } catch (error) {
    if (error.status === 404) state.remember({ source: "text" }); // removed by somebody
    throw error;
  }
}

/** Tag what has no prediction yet by the version in use; then the order is known. */
async function fill(mine = ++turn) {
  queue.version = versions.current;
  const onPart = (part) => mine === turn && rows.refresh(part.map((sentence) => sentence.key));
  await predictions.fill(queue.version, queue.sentences, onPart);
  if (mine !== turn) return;
  if (state.order === "unsure" || state.type) arrange();
  else rows.refreshAll();
  drawSoon();
}

/** Order and filter anew, and stay at the same sentence where it is still shown. */
function arrange() {
  const [key, entered] = [queue.view[rows.at?.row]?.key, rows.entered && byId("sentences").contains(document.activeElement)];
  queue.arrange();
  rows.show();
  const [row] = queue.rows.get(key) ?? [];
  if (entered && row !== undefined) rows.focus(row, 0);
  drawSoon();
}

/** Go to the sentences of a source. Another page may have adapted meanwhile, so the version is asked for first. */
async function open(source) {
  state.remember({ source });
  opening += 1;
  try {
    await versions.refresh();
    await load(enter);
  } finally {
    opening -= 1;
  }
}

function enter() {
  steps.show("correct");
  if (queue.view.length === 0) return;
  rows.focus(0, 0);
  if (labels.isAccepted(queue.view[0])) corrections.goOn();
}

// --- versions

async function onVersions(changed) {
  types.see(versions.allTypes);
  compare.offer(versions.names);
  drawSoon();
  if (!changed || opening) return;
  if (queue.sentences.length === 0) await load();
  else await fill();
  if (steps.current === "adapt") await compare.refresh();
}

async function onStep(step) {
  try {
    if (step === "text") await files.refresh();
    if (step === "correct") rows.refocus(); // where one was, in sight
    if (step !== "adapt") return;
    await sync.exchange(); // agreement is about what the server has
    await agreement.refresh();
    await compare.refresh();
  } catch (error) {
    showError(error);
  }
}

function onAnnotator() {
  if (queue.sentences.length > 0) arrange();
  attempt(() => files.refresh());
}

// --- what the controls do

byId("tag-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => {
    state.remember({ text: byId("text").value });
    await open("text");
  }, event.submitter);
});

byId("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("tag-form").requestSubmit();
});

byId("review").addEventListener("click", (event) => attempt(() => open("labelled"), event.target));

byId("accept").addEventListener("click", () => corrections.acceptAndGoOn());
byId("skip").addEventListener("click", () => corrections.goOn());
byId("undo").addEventListener("click", () => corrections.undo());
byId("redo").addEventListener("click", () => corrections.redo());

for (const choice of ["order", "show", "type"]) {
  byId(choice).value = state[choice];
  byId(choice).addEventListener("change", (event) => {
    state.remember({ [choice]: event.target.value });
    arrange();
  });
}

byId("export-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(() => api.exportLabels(labels.given(), byId("export-format").value), event.submitter);
});

byId("forget").addEventListener("click", async () => {
  const question = `Delete the labels of ${count(labels.tally.said, "sentence")}, here and on the server?`;
  if (await ask(question, "Delete", "Keep them")) corrections.forget();
});

byId("to-adapt").addEventListener("click", () => steps.show("adapt"));
byId("next-file").addEventListener("click", (event) => attempt(() => open(files.after(state.source).id), event.target));

labels.addEventListener("change", ({ detail: keys }) => {
  types.see(labels.types(keys));
  rows.refresh(keys);
  drawSoon();
});
types.addEventListener("change", drawSoon);
history.addEventListener("change", drawSoon);
state.addEventListener("change", drawSoon);

byId("text").value = state.text;
byId("choices").open = !matchMedia("(max-width: 40rem)").matches;
types.see(labels.types());
drawSoon();
await sync.exchange(); // types that others have come before those of the tagger: places are given once
steps.show(state.step);
try {
  await files.refresh();
  await versions.refresh();
  fillSelect(byId("export-format"), await api.formats());
} catch (error) {
  showError(error);
}
