// The queue of files: uploading, opening, removing, and which one is next.

import * as api from "./api.js";
import { ask, attempt, byId, count, fillOptions, make } from "./dom.js";
import { sentenceOf } from "./spans.js";

const TOGETHER = /\.(ann|apf\.xml|arrow)$|^(state|dataset_info)\.json$/; // of formats that have several files
const MOST_OPEN = 5000; // sentences on the page at once
export const ALL = "files";

/** `onOpen(source)` opens the id of a file, or ALL of them; `annotator()` says whose progress is shown. */
export class Files {
  constructor({ annotator, onOpen, onChange }) {
    Object.assign(this, { annotator, onOpen, onChange, list: [], most: 0 });
    byId("upload").addEventListener("change", (event) => this.take(event.target));
    const box = byId("view-text");
    box.addEventListener("dragover", (event) => event.preventDefault());
    box.addEventListener("drop", (event) => this.drop(event));
    byId("open-all").addEventListener("click", (event) => attempt(() => onOpen(ALL), event.target));
  }

  async refresh() {
    const { files, formats, upload_bytes } = await api.files(this.annotator());
    Object.assign(this, { list: files, most: upload_bytes });
    fillOptions(byId("upload-format"), [["", "what it looks like"], ...formats.map((name) => [name, name])]);
    this.render();
    this.onChange();
  }

  render() {
    const total = this.list.reduce((sum, file) => sum + file.sentences, 0);
    byId("files").replaceChildren(...this.list.map((file) => this.item(file)));
    byId("open-all").hidden = this.list.length < 2;
    byId("open-all").disabled = total > MOST_OPEN;
    byId("files-total").textContent = this.list.length > 1 ? `${count(total, "sentence")} in ${this.list.length} files` : "";
  }

  item({ id, name, format, labelled, sentences, accepted }) {
    const open = () => attempt(() => this.onOpen(id));
    const title = make("button", { type: "button", class: "link", on: { click: open } }, name);
    const remove = { type: "button", "aria-label": `Remove ${name}`, on: { click: (e) => this.remove(id, name, e.target) } };
    const facts = `${accepted} of ${count(sentences, "sentence")} accepted · ${format}${labelled ? ", with labels" : ""}`;
    const bar = make("progress", { max: sentences, value: accepted, "aria-label": `Accepted sentences of ${name}` });
    const text = make("div", { class: "grow" }, title, make("p", { class: "hint" }, facts));
    return make("li", { class: "row", dataset: { file: id } }, text, bar, make("button", remove, "Remove"));
  }

  take(input) {
    const files = [...input.files];
    input.value = "";
    attempt(() => this.upload(files), byId("upload-button"));
  }

  drop(event) {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (files.length === 0) return; // text that is dropped into the field
    event.preventDefault();
    attempt(() => this.upload(files), byId("upload-button"));
  }

  /** Files that belong together are one in the queue; the first of several opens. */
  async upload(files) {
    const format = byId("upload-format").value || null;
    const groups = files.some((file) => TOGETHER.test(file.name)) ? [files] : files.map((file) => [file]);
    const made = [];
    try {
      for (const group of groups) made.push(await this.send(group, format));
    } finally {
      if (made.length > 0) await this.refresh();
    }
    if (made.length > 0) await this.onOpen(made[0].id);
  }

  async send(group, format) {
    const bytes = group.reduce((sum, file) => sum + file.size, 0);
    if (bytes > this.most) {
      const error = new Error(`${group[0].name} has ${megabytes(bytes)} MB; at most ${megabytes(this.most)} MB can be sent.`);
      error.fix = "Send it in parts, or start the server with a larger --body-bytes.";
      throw error;
    }
    const parts = await Promise.all(group.map(async (file) => ({ name: file.name, content: await base64(file) })));
    return api.upload(parts, format);
  }

  async remove(id, name, button) {
    if (!(await ask(`Take ${name} out of the queue, for everybody? Its labels stay.`, "Remove", "Keep it"))) return;
    await attempt(async () => {
      await api.removeFile(id);
      await this.refresh();
    }, button);
  }

  /** The sentences of a file or of ALL; those with labels in the file have `entities`. */
  async sentences(source) {
    const ids = source === ALL ? this.list.map((file) => file.id) : [source];
    const found = [];
    for (const id of ids) found.push(...(await api.file(id)).sentences);
    return found.map(({ tokens, gaps, entities }) => ({ ...sentenceOf(tokens, gaps), ...(entities && { entities }) }));
  }

  /** The next file after one that has sentences to accept, or null. */
  after(id) {
    const at = this.list.findIndex((file) => file.id === id);
    if (at < 0) return null;
    const others = [...this.list.slice(at + 1), ...this.list.slice(0, at)];
    return others.find((file) => file.accepted < file.sentences) ?? null;
  }

  nameOf(id) {
    return this.list.find((file) => file.id === id)?.name ?? "";
  }
}

const megabytes = (bytes) => (bytes / 1_000_000).toFixed(1);

function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.addEventListener("load", () => done(reader.result.slice(reader.result.indexOf(",") + 1)));
    reader.addEventListener("error", () => failed(new Error(`${file.name} cannot be read.`)));
    reader.readAsDataURL(file);
  });
}
