"""Word vectors for any language from a transformer's table: a word is the mean of its sub-words' rows.

Only the input table and the tokenizer of the encoder are read; the encoder itself is never run.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nershift.errors import ConfigError, MissingExtraError

_TABLES = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight", "shared.weight")
SPREAD = 0.5  # standard deviation of a component, about that of GloVe: one ε then means the same for both
_PLACE = "encoder.words.subwords"


def find_encoder(name: str) -> str:
    """The folder ``name``, a folder of that name in ``NERSHIFT_ENCODERS``, or else a hub name."""
    local = Path(os.environ.get("NERSHIFT_ENCODERS", ""), name)
    return str(local) if not Path(name).is_dir() and local.is_dir() else name


def missing_folder(name: str) -> ConfigError | None:
    """The error for a path where there is no folder; None for a folder, and for what may be a hub name."""
    path = Path(find_encoder(name))
    like_path = name.startswith((".", "~")) or path.is_absolute() or "\\" in name or name.count("/") > 1
    if path.is_dir() or not (like_path or path.exists()):
        return None
    return ConfigError(
        f"'{name}' is a file" if path.is_file() else f"there is no folder '{name}'",
        place="encoder.transformer.name",
        expected="a folder with config.json, model.safetensors and tokenizer files, or a hub name",
        fix="check the path; for a name without a path, set NERSHIFT_ENCODERS to the folder that holds the encoder",
    )


class SubwordTokenizer:
    """Sub-words of single words, by the ``tokenizer.json`` of an encoder."""

    def __init__(self, text: str, place: str = "tokenizer.json") -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise MissingExtraError("tokenizers", "transformers", "word vectors from sub-words") from None
        self.text = text
        try:
            self._tokenizer: Any = Tokenizer.from_str(text)
        except Exception as error:  # tokenizers raises bare Exceptions
            raise ConfigError(f"not a tokenizer ({error})", place=place) from None

    def pieces(self, word: str) -> list[int]:
        """Rows of the table; none for a word that the tokenizer drops (a lone space)."""
        # The space marks the start of a word for every kind of tokenizer.
        return list(self._tokenizer.encode(f" {word}", add_special_tokens=False).ids)

    @property
    def unknown(self) -> int | None:
        model = json.loads(self.text)["model"]
        if model.get("unk_id") is not None:
            return int(model["unk_id"])
        row = self._tokenizer.token_to_id(model.get("unk_token") or "")
        return None if row is None else int(row)


@dataclass(frozen=True, eq=False)
class SubwordVectors:
    """``matrix[p]`` is the vector of sub-word ``p``."""

    tokenizer: SubwordTokenizer
    matrix: npt.NDArray[np.float32]  # [sub-words, size]

    def vector(self, word: str) -> npt.NDArray[np.float32]:
        """The mean of the word's sub-words; zero for a word without any."""
        pieces = self.tokenizer.pieces(word)
        mean = self.matrix[pieces].mean(0) if pieces else np.zeros(self.matrix.shape[1])
        return mean.astype(np.float32)


@lru_cache(maxsize=2)
def read_subwords(folder: str, size: int) -> SubwordVectors:
    """The table of the encoder in ``folder``, centred, cut to its ``size`` principal axes and scaled.

    Axes depend on the table alone, so two languages stay as well aligned as in the table.

    Raises:
        ConfigError: the folder lacks ``model.safetensors`` or ``tokenizer.json``, or has no table in it.
    """
    path, words = Path(folder, "model.safetensors"), Path(folder, "tokenizer.json")
    for needed in (path, words):
        if not needed.is_file():
            raise ConfigError(
                f"no file '{needed}'",
                place=_PLACE,
                expected="a local encoder folder with model.safetensors and tokenizer.json",
                fix="check the name, or set NERSHIFT_ENCODERS to the folder that holds the encoder",
            )
    tokenizer = SubwordTokenizer(words.read_text(encoding="utf-8"), str(words))
    return SubwordVectors(tokenizer, principal(_table(path), size))


def _table(path: Path) -> npt.NDArray[np.float32]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt") as file:  # numpy knows no bfloat16
            names = [name for name in file.keys() if name.endswith(_TABLES)]  # noqa: SIM118 - not a dict
            if not names:
                raise ConfigError("no table of sub-words in it", place=str(path), expected=f"a tensor …{_TABLES[0]}")
            table: npt.NDArray[np.float32] = file.get_tensor(min(names, key=len)).float().numpy()
            return table
    except (OSError, SafetensorError) as error:
        raise ConfigError(f"cannot be read ({error})", place=str(path), fix="fetch it again") from None


def principal(table: npt.NDArray[np.float32], size: int) -> npt.NDArray[np.float32]:
    """Coordinates on the ``size`` axes of largest variance (all axes, if there are fewer), spread ``SPREAD``."""
    centred = table - table.mean(0)
    if size < table.shape[1]:
        _, axes = np.linalg.eigh(centred.T.astype(np.float64) @ centred)  # variances ascend
        axes = axes[:, ::-1][:, :size]
        axes = axes * np.sign(axes[np.abs(axes).argmax(0), np.arange(size)])  # the sign of an axis is free
        centred = centred @ axes.astype(np.float32)
    return (centred * (SPREAD / max(float(centred.std()), 1e-12))).astype(np.float32)
