// A sentence with its entities as nodes; used for the sentences one can edit and for those of a comparison.

import { make, percent } from "./dom.js";
import { entityAt, wordsOf } from "./spans.js";

/** What there is to say of an entity beyond its words. */
export function describe(entity) {
  return entity.confidence === undefined ? "labelled by you" : `confidence ${percent(entity.confidence)}`;
}

/**
 * The nodes of a sentence.
 *
 * `word(at, entity)` makes the node of a word, or its text; `colour(label)` names a class; `mark(entity)` is put
 * before the type's name.
 */
export function paint(sentence, entities, { word, colour, mark = () => "", group = false }) {
  const nodes = [];
  let box = null; // of the entity that is being filled
  let open = null;
  sentence.tokens.forEach((_, at) => {
    const entity = entityAt(entities, at);
    const gap = sentence.gaps[at];
    if (open && entity !== open) close();
    if (entity && entity !== open) {
      if (gap) nodes.push(gap);
      box = make("span", {
        class: `entity ${colour(entity.label)}`,
        title: `${entity.label}, ${describe(entity)}`,
        role: group ? "group" : undefined,
        "aria-label": group ? `${entity.label}, ${describe(entity)}` : undefined,
      });
      open = entity;
    } else if (gap) (box ?? nodes)[box ? "append" : "push"](gap);
    (box ?? nodes)[box ? "append" : "push"](word(at, entity));
  });
  if (open) close();
  return nodes;

  function close() {
    box.append(make("span", { class: "type", "aria-hidden": group ? "true" : undefined }, mark(open) + open.label));
    nodes.push(box);
    box = open = null;
  }
}

/** The line that tells about the entity, or the words, one looks at. */
export function detailOf(sentence, start, end, entity, colour) {
  const words = make("q", {}, wordsOf(sentence, start, end));
  if (!entity) return [words, make("span", {}, "no entity")];
  const type = make("span", { class: `chip ${colour(entity.label)}` }, entity.label);
  if (entity.confidence === undefined) return [words, type, make("span", {}, describe(entity))];
  const meter = make("meter", { min: 0, max: 1, value: entity.confidence, "aria-label": "confidence" });
  return [words, type, make("span", {}, describe(entity)), meter];
}
