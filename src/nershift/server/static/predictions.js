// What versions of the tagger predict, sentence by sentence, asked for once.

import * as api from "./api.js";
import { cut } from "./spans.js";

const MOST_SENTENCES = 64; // of a request
const MOST_LETTERS = 20_000;
const MOST_VERSIONS = 4; // that are remembered

export class Predictions {
  constructor() {
    this.versions = new Map(); // name → key → {entities, uncertainty}
  }

  of(version, key) {
    return this.versions.get(version)?.get(key);
  }

  /** How many sentences a version has tagged so far. */
  size(version) {
    return this.versions.get(version)?.size ?? 0;
  }

  table(version) {
    const table = this.versions.get(version) ?? new Map();
    this.versions.delete(version);
    this.versions.set(version, table); // the latest last
    for (const name of [...this.versions.keys()].slice(0, -MOST_VERSIONS)) this.versions.delete(name);
    return table;
  }

  /** The sentences of a text, found and tagged by the server. */
  async read(text, version) {
    const [table, sentences] = [this.table(version), []];
    for (const piece of pieces(text)) {
      const answer = await api.tagText(piece, version);
      for (const { prediction, ...sentence } of cut(answer.results[0], piece)) {
        table.set(sentence.key, prediction);
        sentences.push(sentence);
      }
    }
    return sentences;
  }

  /** Tag what a version has not tagged yet; `onPart(sentences)` hears of each part that is there. */
  async fill(version, sentences, onPart = () => {}) {
    const table = this.table(version);
    const open = new Map(sentences.filter(({ key }) => !table.has(key)).map((sentence) => [sentence.key, sentence]));
    for (const part of parts([...open.values()])) {
      const answer = await api.tagWords(part.map((sentence) => sentence.tokens), version);
      answer.results.forEach((result, i) => table.set(part[i].key, joined(result)));
      onPart(part);
    }
  }
}

/** The server reads words that it was given as one sentence. */
const joined = (result) => cut({ ...result, sentences: [[0, result.tokens.length]] }, null)[0].prediction;

/** A text in pieces of whole lines, since a line break always ends a sentence. */
function pieces(text) {
  const found = [];
  let piece = "";
  for (const line of text.split(/(?<=\n)/)) {
    if (piece && piece.length + line.length > MOST_LETTERS) {
      found.push(piece);
      piece = "";
    }
    piece += line;
  }
  return [...found, piece].filter((some) => some.trim());
}

function parts(sentences) {
  const found = [];
  let letters = Infinity;
  for (const sentence of sentences) {
    const size = sentence.tokens.reduce((sum, token) => sum + token.length + 1, 0);
    letters += size;
    if (letters > MOST_LETTERS || found.at(-1).length === MOST_SENTENCES) {
      found.push([]);
      letters = size;
    }
    found.at(-1).push(sentence);
  }
  return found;
}
