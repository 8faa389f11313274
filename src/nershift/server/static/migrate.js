// Labels that earlier versions of the page kept, all under one name, are carried over.

import { labelName } from "./labels.js";
import { bare, keyOf } from "./spans.js";

const OLD = "nershift";

/**
 * Write the labels of form 1 in today's form, as those of `annotator`; what was labelled since stays as it is. The old
 * ones are removed last. Where both do not fit side by side, they go first, and come back if the new ones fail.
 */
export function migrate(store, annotator) {
  const text = store.storage.getItem(OLD);
  const old = formOne(text);
  if (!old) return;
  const done = quietly(store, () => carry(store, annotator, old));
  store.storage.removeItem(OLD);
  if (done || carry(store, annotator, old)) return;
  for (const { tokens } of entriesOf(old)) store.remove(labelName(annotator, keyOf(tokens)));
  store.storage.setItem(OLD, text);
}

function formOne(text) {
  try {
    const old = JSON.parse(text);
    return old?.form === 1 ? old : null;
  } catch {
    return null; // written by something else
  }
}

/** A first attempt, of whose failure nobody is told. */
function quietly(store, action) {
  const { onFull } = store;
  store.onFull = () => {};
  const done = action();
  store.onFull = onFull;
  return done;
}

const entriesOf = (old) => (old.entries ?? []).map(([, entry]) => entry);

/** Whether all could be written. */
function carry(store, annotator, old) {
  const written = entriesOf(old).map(({ tokens, gaps, entities, checked }) => {
    const record = { tokens, gaps, entities: bare(entities), accepted: checked, changed: 1, unsent: true };
    return writeIfNew(store, labelName(annotator, keyOf(tokens)), record);
  });
  writeIfNew(store, "types", (old.order ?? []).map((name) => ({ name, guideline: "", hidden: false })));
  for (const part of ["text", "job", "compared"]) if (old[part]) writeIfNew(store, `page/${part}`, old[part]);
  return written.every(Boolean);
}

const writeIfNew = (store, name, value) => store.read(name) !== null || store.write(name, value);
