// A sentence with its entities as nodes; used for the sentences one can edit and for those of a comparison.

import { make, percent } from "./dom.js";
import { entityAt } from "./spans.js";

const LEVELS = [0.9, 0.7, 0.5]; // from here on an entity counts as sure, fairly sure, unsure; below, as doubtful

/** What there is to say of an entity beyond its words. */
export function describe(entity) {
  return entity.score === undefined ? "labelled" : `confidence ${percent(entity.score)}`;
}

/** The class that shows how sure the tagger is: `c0` (sure) to `c3`; none where there is no tagger to ask. */
export function levelOf(entity) {
  if (entity.score === undefined) return "";
  const level = LEVELS.findIndex((least) => entity.score >= least);
  return ` c${level < 0 ? LEVELS.length : level}`;
}

/**
 * The nodes of a sentence.
 *
 * `word(at, entity)` makes the node of a word, or its text; `colour(label)` names a class; `mark(entity)` is put
 * before the type's name. `editable` gives entities handles at both borders.
 */
export function paint(sentence, entities, { word, colour, mark = () => "", editable = false }) {
  const nodes = [];
  let box = null; // of the entity that is being filled
  let open = null;
  sentence.tokens.forEach((_, at) => {
    const entity = entityAt(entities, at);
    const gap = sentence.gaps[at];
    if (open && entity !== open) close();
    if (entity && entity !== open) {
      if (gap) nodes.push(gap);
      box = boxOf(entity);
      open = entity;
    } else if (gap) (box ?? nodes)[box ? "append" : "push"](gap);
    (box ?? nodes)[box ? "append" : "push"](word(at, entity));
  });
  if (open) close();
  return nodes;

  function boxOf(entity) {
    const told = `${entity.label}, ${describe(entity)}`;
    const group = editable ? { role: "group", "aria-label": told, dataset: { at: entity.start } } : {};
    const made = make("span", { class: `entity ${colour(entity.label)}${levelOf(entity)}`, title: told, ...group });
    if (editable) made.append(grip("start"));
    return made;
  }

  function close() {
    if (editable) box.append(grip("end"));
    box.append(make("span", { class: "type", "aria-hidden": editable ? "true" : undefined }, mark(open) + open.label));
    nodes.push(box);
    box = open = null;
  }
}

/** A handle that is dragged to move a border. The keyboard and the panel have other ways, so it is not told twice. */
const grip = (edge) => make("span", { class: "grip", "aria-hidden": "true", dataset: { edge } });
