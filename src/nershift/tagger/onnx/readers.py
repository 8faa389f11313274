"""From tokens to the scores of tags by ONNX Runtime: the recurrent and the transformer tagger. No torch in here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nershift.errors import CheckpointError, MissingExtraError
from nershift.text.subwords import Frame, Pieces, pad_windows
from nershift.text.word_cache import CACHE_BYTES, Vocabulary, WordCache

Array = NDArray[Any]
Open = Callable[[Path], Any]  # a graph's file to an inference session

MODEL, WORDS, TOKENIZER = "model.onnx", "words.onnx", "tokenizer.json"
_FORMS = 128  # word forms of about one length that are looked at together


class Reader(ABC):
    """What stands in for an encoder and a decoder's linear layer."""

    @abstractmethod
    def scores(self, rows: Sequence[Sequence[str]]) -> tuple[Array, Array]:
        """``emissions [B, L, C]`` and ``mask [B, L]`` of sentences, none of them empty."""


class RecurrentReader(Reader):
    """Words and characters, a recurrent layer.

    What the graph of words says of a word form is kept, so that each form is looked at once.
    """

    def __init__(self, encoder: Mapping[str, Any], folder: Path, open_graph: Open) -> None:
        self._vocabulary, self._characters = Vocabulary(encoder["words"]), Vocabulary(encoder["characters"])
        self._max_length, self._use_chars = int(encoder["max_length"]), bool(encoder["chars"])
        self._words, self._model = open_graph(folder / WORDS), open_graph(folder / MODEL)
        self._width = int(encoder["gates"])
        self.cache_bytes = CACHE_BYTES  # for what is known of word forms alone
        self.forget()

    def forget(self) -> None:
        """Drop the word forms met so far."""
        self.word_cache = WordCache(self._vocabulary, self._characters, self._max_length)
        self._gates = np.empty((0, self._width), np.float32)  # [room, G]
        self._known = 0

    def scores(self, rows: Sequence[Sequence[str]]) -> tuple[Array, Array]:
        if self.word_cache.bytes + self._gates.nbytes > self.cache_bytes:
            self.forget()
        numbers = [self.word_cache.numbers(tokens) for tokens in rows]
        self._catch_up()
        lengths = np.array([len(row) for row in numbers])
        mask = np.arange(lengths.max()) < lengths[:, None]  # [B, L]
        where = np.zeros(mask.shape, np.int64)
        where[mask] = np.concatenate(numbers)
        given = {"gates": self._gates[: self._known], "where": np.ascontiguousarray(where.T)}
        return self._model.run(None, given | {"lengths": lengths})[0], mask

    def _catch_up(self) -> None:
        """Run the graph of words over the forms met since the last time."""
        new = np.arange(self._known, len(self.word_cache))
        if not len(new):
            return
        rows, chars = self.word_cache.arrays(new)
        if len(self.word_cache) > len(self._gates):
            room = np.empty((max(1024, 2 * len(self.word_cache)), self._width), np.float32)
            room[: self._known] = self._gates[: self._known]
            self._gates = room
        lengths = (chars != 0).sum(1)
        order = np.argsort(lengths, kind="stable")  # short words need not be padded to the longest
        for at in range(0, len(new), _FORMS):
            some = order[at : at + _FORMS]
            given = {"rows": rows[some]}
            if self._use_chars:
                given["chars"] = chars[some, : lengths[some].max(initial=1)]
            self._gates[new[some]] = self._words.run(None, given)[0]
        self._known = len(self.word_cache)


class TransformerReader(Reader):
    """Sub-words in windows, a transformer, and the characters of words where the tagger looks at them."""

    def __init__(self, encoder: Mapping[str, Any], folder: Path, open_graph: Open) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtraError("tokenizers", "transformers", "a transformer tagger") from None
        path = folder / TOKENIZER
        try:
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exceptions
            raise CheckpointError(
                f"not a tokenizer ({error})", place=str(path), fix="export the tagger again"
            ) from None
        frame = dict(encoder["frame"])
        self._frame = Frame(**{**frame, "before": tuple(frame["before"]), "after": tuple(frame["after"])})
        self._model = open_graph(folder / MODEL)
        self._letters: Vocabulary | None = None
        if encoder["characters"] is not None:
            self._letters, self._max_length = Vocabulary(encoder["characters"]), int(encoder["max_length"])

    def scores(self, rows: Sequence[Sequence[str]]) -> tuple[Array, Array]:
        given = pad_windows([self._prepare(tokens) for tokens in rows], self._frame.pad)
        mask = given.pop("mask")
        if self._letters is not None:
            word_cache = WordCache(Vocabulary(), self._letters, self._max_length)
            form = np.zeros(mask.shape, np.int64)
            form[mask] = np.concatenate([word_cache.numbers(tokens) for tokens in rows])
            given |= {"form": form, "chars": word_cache.arrays(np.arange(len(word_cache)))[1]}
        return self._model.run(None, given)[0], mask

    def _prepare(self, tokens: Sequence[str]) -> Pieces:
        found = self._tokenizer.encode(list(tokens), is_pretokenized=True, add_special_tokens=False)
        return Pieces(*self._frame.lay_out(self._frame.by_word(found.ids, found.word_ids, len(tokens))), np.empty(0))


READERS: dict[str, type[Reader]] = {"recurrent": RecurrentReader, "transformer": TransformerReader}
