// Sentences and entities as plain values. Entities are flat, sorted, half-open ranges of words.

/** The name under which a sentence's labels are kept: the same words are the same sentence, wherever they stand. */
export const keyOf = (tokens) => tokens.join(" ");

export const covers = (entity, at) => entity.start <= at && at < entity.end;

export const entityAt = (entities, at) => entities.find((entity) => covers(entity, at));

/** Entities with `start:end` labelled; whatever it overlaps gives way. */
export function withEntity(entities, start, end, label) {
  const apart = entities.filter((entity) => entity.end <= start || end <= entity.start);
  return [...apart, { start, end, label }].sort((a, b) => a.start - b.start);
}

export const without = (entities, entity) => entities.filter((other) => !same(other, entity));

export const same = (a, b) => a.start === b.start && a.end === b.end && a.label === b.label;

/** What `entities` has and `others` has not. */
export const missingFrom = (others, entities) => entities.filter((e) => !others.some((o) => same(o, e)));

/** The words of a range as they were written. */
export const wordsOf = (sentence, start, end) =>
  sentence.tokens.slice(start, end).map((token, i) => (i ? sentence.gaps[start + i] : "") + token).join("");

/** One result of /tag cut into sentences; `text` is what was sent, or null for words without a text. */
export function cut(result, text) {
  const letters = text === null ? null : [...text]; // offsets count characters, not halves of them
  return result.sentences.map(([from, to], number) => {
    const words = result.tokens.slice(from, to);
    const tokens = words.map((word) => word.text);
    const gaps = words.map((word, i) => (i === 0 ? "" : letters ? letters.slice(words[i - 1].end, word.start).join("") : " "));
    const predicted = result.entities
      .filter((entity) => from <= entity.token_start && entity.token_end <= to)
      .map((e) => ({ start: e.token_start - from, end: e.token_end - from, label: e.label, confidence: e.score }));
    return { key: keyOf(tokens), tokens, gaps, predicted, uncertainty: result.uncertainty?.[number] ?? null };
  });
}
