// Sentences and entities as plain values. Entities are flat, sorted, half-open ranges of words.

/** The name under which a sentence's labels are kept: the same words are the same sentence, wherever they stand. */
export const keyOf = (tokens) => tokens.join("\u001f"); // a sign that no word has

export const covers = (entity, at) => entity.start <= at && at < entity.end;

export const entityAt = (entities, at) => entities.find((entity) => covers(entity, at));

/** Entities with `start:end` labelled; whatever it overlaps gives way. */
export function withEntity(entities, start, end, label) {
  const apart = entities.filter((entity) => entity.end <= start || end <= entity.start);
  return [...apart, { start, end, label }].sort((a, b) => a.start - b.start);
}

export const without = (entities, entity) => entities.filter((other) => !sameSpan(other, entity));

/** Entities with the borders of one moved; it keeps its type, but is no prediction any more. */
export const withBorders = (entities, entity, start, end) => withEntity(without(entities, entity), start, end, entity.label);

/** How far the borders of an entity can go: to its neighbours. */
export function room(entities, entity, length) {
  const before = entities.filter((other) => other.end <= entity.start).map((other) => other.end);
  const after = entities.filter((other) => other.start >= entity.end).map((other) => other.start);
  return [Math.max(0, ...before), Math.min(length, ...after)];
}

/** The entity that a border at a word would belong to: the one around it, else the next on the side it would grow from. */
export function nearest(entities, at, edge) {
  const around = entityAt(entities, at);
  if (around) return around;
  return edge === "start" ? entities.find((entity) => entity.start > at) : entities.findLast((entity) => entity.end <= at);
}

export const sameSpan = (a, b) => a.start === b.start && a.end === b.end && a.label === b.label;

/** What `entities` has and `others` has not. */
export const missingFrom = (others, entities) => entities.filter((e) => !others.some((o) => sameSpan(o, e)));

/** Entities as an annotator's own: without the tagger's scores. */
export const bare = (entities) => entities.map(({ start, end, label }) => ({ start, end, label }));

/** The words of a range as they were written. */
export const wordsOf = (sentence, start, end) =>
  sentence.tokens.slice(start, end).map((token, i) => (i ? sentence.gaps[start + i] : "") + token).join("");

/** A sentence as the page has it: its words, and what stood before each. */
export const sentenceOf = (tokens, gaps) => ({ key: keyOf(tokens), tokens, gaps });

/**
 * One result of /tag cut into sentences, each with its prediction {entities, uncertainty}. `text` is what was sent, or
 * null for words without a text.
 */
export function cut(result, text) {
  const letters = text === null ? null : [...text]; // offsets count characters, not halves of them
  return result.sentences.map(([from, to], number) => {
    const words = result.tokens.slice(from, to);
    const gaps = words.map((word, i) => (i === 0 ? "" : letters ? letters.slice(words[i - 1].end, word.start).join("") : " "));
    const entities = result.entities
      .filter((entity) => from <= entity.token_start && entity.token_end <= to)
      .map((e) => ({ start: e.token_start - from, end: e.token_end - from, label: e.label, score: e.score }));
    const prediction = { entities, uncertainty: result.uncertainty?.[number] ?? 0 };
    return { ...sentenceOf(words.map((word) => word.text), gaps), prediction };
  });
}
