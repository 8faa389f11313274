"""Encoders from settings and training text."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import torch

from nershift.config import EncoderConfig, WordsConfig
from nershift.data.spans import Sentence
from nershift.encoders.base import Encoder
from nershift.encoders.concat import AND, ConcatEncoder
from nershift.encoders.recurrent import RecurrentEncoder, Words
from nershift.encoders.subword_table import SubwordTable
from nershift.encoders.transformer import TransformerEncoder, find_encoder, load_pretrained
from nershift.encoders.words import WordTable, row_name
from nershift.errors import ConfigError
from nershift.text.subword_vectors import read_subwords
from nershift.text.vectors import Vectors, read_vectors
from nershift.text.word_cache import Vocabulary

log = logging.getLogger(__name__)


def make_encoder(config: EncoderConfig, sentences: Iterable[Sentence]) -> Encoder:
    """A new encoder whose trained words and letters are those of ``sentences``; seed torch before."""
    words = Counter(token for s in sentences for token in s.tokens)
    characters = Vocabulary(sorted({c for word in words for c in word}))
    if config.kind == "transformer":
        if not config.transformer.name:
            raise ConfigError(
                "no encoder was named",
                place="encoder.transformer.name",
                expected="a local folder or a hub name",
                fix="--set encoder.transformer.name=PATH",
            )
        if AND in config.transformer.name:
            return ConcatEncoder.new(config, characters)
        model, tokenizer = load_pretrained(config.transformer.name)
        return TransformerEncoder(config, model, tokenizer, characters)
    return make_recurrent(config, words)


def make_recurrent(config: EncoderConfig, words: Counter[str]) -> RecurrentEncoder:
    """A new recurrent encoder whose trained words and letters are those of ``words``; seed torch before."""
    return RecurrentEncoder(config, make_words(config.words, words), Vocabulary(sorted({c for w in words for c in w})))


def make_words(settings: WordsConfig, words: Counter[str]) -> Words:
    """Word vectors for a text with these words: of a file, of an encoder's sub-words, or random ones."""
    if settings.subwords:
        return _subwords(settings)
    if not settings.vectors:
        return WordTable(settings, sorted({row_name(w, settings.lower, ()) for w in words}), (), settings.size)
    path = find_vectors(settings.vectors)
    vectors = _vectors(path, path.stat().st_mtime_ns)
    log.info("%s", vectors.coverage(words))
    known = {row_name(w, settings.lower, vectors.index) for w in words}
    if not settings.train:  # a random row that never learns would say nothing: such words are unknown
        known = {w for w in known if vectors.find(w) is not None}
    trained = sorted(known)
    # With `lower`, a cased row of the file would shadow the trained row of its lower-cased form.
    reserve = [w for w in vectors.words if w not in known and not (settings.lower and w != w.lower())]
    reserve = reserve[: settings.extra_words]
    table = WordTable(settings, trained, reserve, vectors.dim)
    rows = {word: vectors.find(word) for word in trained} | {word: vectors.index[word] for word in reserve}
    found = {word: row for word, row in rows.items() if row is not None}
    table.fill(list(found), torch.from_numpy(vectors.matrix)[list(found.values())])
    return table


def _subwords(settings: WordsConfig) -> SubwordTable:
    wrong = "encoder.words.vectors is set too" if settings.vectors else ""
    wrong = wrong or ("encoder.words.train is true, but rows of sub-words do not learn" * settings.train)
    if wrong:
        raise ConfigError(
            wrong,
            place="encoder.words.subwords",
            expected="one source of vectors, and train: false",
            fix="--set encoder.words.vectors= --set encoder.words.train=false",
        )
    return SubwordTable.of(settings, read_subwords(find_encoder(settings.subwords), settings.size))


def find_vectors(name: str) -> Path:
    """A path, or the name of a file in the folder ``NERSHIFT_VECTORS`` (a config then fits every machine)."""
    folder = os.environ.get("NERSHIFT_VECTORS", "")
    for path in (Path(name), Path(folder, name)):
        if path.is_file():
            return path
    raise ConfigError(
        f"no file '{name}'",
        place="encoder.words.vectors",
        expected="a text file of word vectors (GloVe, word2vec, fastText)",
        fix="check the path, or let NERSHIFT_VECTORS name the folder that holds the file",
    )


@lru_cache(maxsize=2)
def _vectors(path: Path, changed: int) -> Vectors:
    return read_vectors(path)
