"""Words + characters → BiGRU or BiLSTM: the CNN-BiGRU encoder of MetaNER (eqs. 4-7) and its relatives."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import PackedSequence

from nershift.backend.device import look_up
from nershift.config import EncoderConfig
from nershift.encoders.base import Encoder, register
from nershift.encoders.subword_table import SubwordTable
from nershift.encoders.words import CharCNN, Words, WordTable, make_words, row_name
from nershift.text.counts import BOUNDARY
from nershift.text.word_cache import Rounding, Vocabulary, WordCache

_WEIGHTS = 4  # of a direction: from input, from state, and a bias of each


@register("recurrent")
class RecurrentEncoder(Encoder):
    """``words`` holds the word vectors, ``characters`` the letters known so far."""

    word_cache: WordCache
    onnx_form = "recurrent"
    cuda_graph_batches = 2  # with more, padding them to one shape costs more than recording saves
    cuda_graph_precisions = ("fp32",)

    def __init__(self, config: EncoderConfig, words: Words, characters: Vocabulary) -> None:
        super().__init__()
        self.config = config
        self.words = words
        self.characters = characters
        self.chars = CharCNN(config.chars, len(characters)) if config.chars.use else None
        width = words.size + (self.chars.size if self.chars else 0)
        cell = {"gru": nn.GRU, "lstm": nn.LSTM}[config.recurrent.cell]
        self.recurrent = cell(
            width, config.recurrent.size, config.recurrent.layers, batch_first=True, bidirectional=True
        )
        self.input_dropout = nn.Dropout(config.input_dropout)
        self.dropout = nn.Dropout(config.dropout)
        self.size = 2 * config.recurrent.size
        self.forget()

    @classmethod
    def new(cls, config: EncoderConfig, words: Counter[str]) -> RecurrentEncoder:
        return cls(config, make_words(config.words, words), Vocabulary.letters(words))

    @property
    def cuda_graph_safe(self) -> bool:
        return isinstance(self.words, WordTable) and fast_kernels(next(self.parameters()))

    @property
    def not_exportable(self) -> str:
        return "its word vectors are made of sub-words" if isinstance(self.words, SubwordTable) else ""

    def layers(self) -> list[nn.RNNBase]:
        """Recurrent layers that read the same input; their states are concatenated."""
        return [self.recurrent]

    def forget(self) -> None:
        if isinstance(self.words, SubwordTable):
            self.words.forget()
        self.word_cache = WordCache(self.words.vocabulary, self.characters, self.config.chars.max_length)

    def prepare(self, tokens: Sequence[str]) -> np.ndarray:
        return np.array(self.word_cache.numbers(tokens), dtype=np.int64)

    def collate(self, items: Sequence[np.ndarray]) -> dict[str, Tensor]:
        return gather(items, self.word_cache, self.rounding)

    def embed(self, rows: Tensor, chars: Tensor, where: Tensor) -> Tensor:
        """Input features ``[B, L, F]`` of the recurrent layer, computed once per distinct word."""
        parts = [look_up(self.words(rows), where)]
        if self.chars is not None:
            parts.append(self.dropout(look_up(self.chars(chars), where)))
        return self.input_dropout(torch.cat(parts, -1))

    def contextualise(self, x: Tensor, lengths: Tensor) -> Tensor:
        """Recurrent states ``[B, L, size]`` of input features ``[B, L, F]``; zero under padding."""
        states = [bidirectional(layer, x, lengths) for layer in self.layers()]
        return self.dropout(torch.cat(states, -1) if len(states) > 1 else states[0])

    def forward(self, **inputs: Tensor) -> Tensor:
        x = self.embed(inputs["rows"], inputs["chars"], inputs["where"])
        return self.contextualise(x, inputs["lengths"])

    def pad_alike(self, batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
        return [inputs | {"lengths": inputs["mask"].sum(1)} for inputs in alike(batches)]

    @classmethod
    def frozen_words(cls, config: EncoderConfig) -> str:
        return "" if config.words.train else "words.train=true"

    def word_parameters(self) -> list[nn.Parameter]:
        return list(self.words.parameters())

    def learn_words(self, words: Iterable[str]) -> None:
        words = list(words)
        known = self.words.vocabulary.index
        self.words.learn(row_name(w, self.config.words.lower, known) for w in words)
        self.characters.extend(sorted({c for w in words for c in w}))
        if self.chars is not None:
            self.chars.grow(len(self.characters))
        self.forget()

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"words": self.words.describe(), "characters": self.characters.words[2:]}

    def save_files(self, folder: str) -> None:
        if isinstance(self.words, SubwordTable):
            self.words.save_files(folder)

    @classmethod
    def rebuild(cls, config: EncoderConfig, description: Mapping[str, Any], folder: str) -> RecurrentEncoder:
        words: Words
        if description["words"].get("kind") == "subwords":
            words = SubwordTable.rebuild(description["words"], folder)
        else:
            words = WordTable.rebuild(description["words"])
        return cls(config, words, Vocabulary(description["characters"]))


def gather(items: Sequence[np.ndarray], word_cache: WordCache, rounding: Rounding | None = None) -> dict[str, Tensor]:
    """Tensors of a batch from the numbers of each sentence's words in ``word_cache``."""
    lengths = np.array([len(item) for item in items])
    flat = np.concatenate(items)
    forms, where = np.unique(flat, return_inverse=True)  # [U], [tokens]
    rows, chars = word_cache.look_up(forms, rounding)  # [U], [U, W]
    width = int(lengths.max())
    if rounding is not None:
        width = rounding.up(width, rounding.length)
    mask = torch.from_numpy(np.arange(width) < lengths[:, None])  # [B, L]
    padded = torch.zeros(mask.shape, dtype=torch.long)
    padded[mask] = torch.from_numpy(where.reshape(-1))
    return {
        "rows": rows,
        "chars": chars,
        "where": padded,
        "mask": mask,
        "lengths": torch.from_numpy(lengths),
    }


def alike(batches: Sequence[Mapping[str, Tensor]]) -> list[dict[str, Tensor]]:
    """Inputs of several batches, as :func:`gather` makes them, padded to the widest on every axis."""
    forms, letters = (max(inputs["chars"].shape[axis] for inputs in batches) for axis in (0, 1))
    length = max(inputs["mask"].shape[1] for inputs in batches)
    widened = []
    for inputs in batches:
        more, short = length - inputs["mask"].shape[1], forms - len(inputs["rows"])
        padded = {
            "rows": wider(inputs["rows"], (0, short)),
            "chars": wider(inputs["chars"], (0, letters - inputs["chars"].shape[1], 0, short)),
            "where": wider(inputs["where"], (0, more)),
            "mask": wider(inputs["mask"], (0, more)),
            "lengths": inputs["lengths"],
        }
        if "words" in inputs:
            padded["words"] = wider(inputs["words"], (0, more), value=BOUNDARY)
        widened.append(padded)
    return widened


def wider(x: Tensor, by: tuple[int, ...], value: int = 0) -> Tensor:
    """:func:`~torch.nn.functional.pad`, without a copy if there is nothing to add."""
    return pad(x, by, value=value) if any(by) else x


# -- the recurrent layer, in the way the device runs fastest ------------------------------------------------


def bidirectional(layer: nn.RNNBase, x: Tensor, lengths: Tensor) -> Tensor:
    """States ``[B, L, 2 · hidden]`` of inputs ``[B, L, F]``; zero under padding.

    ``lengths [B]`` are on the CPU, or with ``x`` where its device has :func:`fast_kernels`.
    """
    if fast_kernels(x):
        kind = "lstm" if isinstance(layer, nn.LSTM) else "gru"
        weights = [w for w in layer._flat_weights if w is not None]
        return padded_states(kind, weights, x, lengths, layer.training)
    packing = Packing.of(lengths, x)
    return packing.unpack(layer(packing.pack(x))[0].data)


def fast_kernels(x: Tensor) -> bool:
    """Whether cuDNN's kernels for padded batches may be used.

    They round more than those for packed batches, even without TF32. Code that turns TF32 off, to take differences of
    gradients for example, therefore gets the packed ones.
    """
    return x.is_cuda and torch.backends.cudnn.allow_tf32


def padded_states(kind: str, weights: Sequence[Tensor], x: Tensor, lengths: Tensor, training: bool) -> Tensor:
    """As :func:`bidirectional`, one direction at a time and padding included.

    cuDNN runs a packed batch as one kernel per time step and product, but a padded batch of a small layer as a few
    kernels in all, which is much faster where launching them takes most of the time.
    The forward direction meets padding after the words. For the other one, each sentence is reversed within its length.
    """
    _expect_compaction()
    turned, mask = turns(lengths, x.shape[1])
    turned = turned.to(x.device, non_blocking=True)  # [B · L]
    mask = mask.to(x.device, non_blocking=True)  # [B, L, 1]
    for at in range(0, len(weights), 2 * _WEIGHTS):
        ahead, back = weights[at : at + _WEIGHTS], weights[at + _WEIGHTS : at + 2 * _WEIGHTS]
        forward = _one_way(kind, ahead, x, training)
        backward = _turn(_one_way(kind, back, _turn(x, turned), training), turned)
        x = torch.cat([forward, backward], -1) * mask  # [B, L, 2 · hidden]
    return x


@cache
def _expect_compaction() -> None:
    """The weights of one direction are not contiguous in memory; the few copies this costs are intended."""
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")


def turns(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The position of each token once its sentence is reversed, ``[B · L]``, and the mask ``[B, L, 1]``."""
    if lengths.is_cuda:  # a recorded step has to compute it on the device
        return _turns_there(lengths, width)
    ends, place = lengths.numpy()[:, None], np.arange(width)
    inside = place < ends  # [B, L]
    rows = np.arange(len(ends))[:, None] * width
    turned = np.where(inside, ends - 1 - place, place) + rows
    return torch.from_numpy(turned.reshape(-1)), torch.from_numpy(inside[..., None].astype(np.float32))


def _turns_there(lengths: Tensor, width: int) -> tuple[Tensor, Tensor]:
    ends, place = lengths[:, None], torch.arange(width, device=lengths.device)
    inside = place < ends  # [B, L]
    rows = torch.arange(len(lengths), device=lengths.device)[:, None] * width
    return (torch.where(inside, ends - 1 - place, place) + rows).flatten(), inside[..., None].float()


def _turn(x: Tensor, turned: Tensor) -> Tensor:
    return x.flatten(0, 1).index_select(0, turned).view(x.shape)


def _one_way(kind: str, weights: Sequence[Tensor], x: Tensor, training: bool) -> Tensor:
    zeros = x.new_zeros(1, len(x), weights[1].shape[1])
    settings = (True, 1, 0.0, training, False, True)  # biases, one layer, no dropout, one direction, batch first
    if kind == "lstm":
        states: Tensor = torch._VF.lstm(x, (zeros, zeros), list(weights), *settings)[0]
    else:
        states = torch._VF.gru(x, zeros, list(weights), *settings)[0]
    return states


@dataclass(frozen=True)
class Packing:
    """The positions of a padded batch's tokens ``[B, L, …]`` in the packed batch.

    Packing and unpacking take one look-up each. torch's own functions copy once per distinct length on the way in, and
    once per time step in the backward pass: on a GPU most of the cost of a recurrent layer of this size.

    Example:
        >>> packing = Packing.of(torch.tensor([1, 2]), torch.tensor([[[1.0], [0.0]], [[2.0], [3.0]]]))
        >>> packing.at.tolist(), packing.batch_sizes.tolist()
        ([2, 0, 3], [2, 1])
    """

    shape: tuple[int, int]
    at: Tensor  # [tokens], on the batch's device: time step by time step, the longest sentences first
    batch_sizes: Tensor  # [longest], on the CPU, where the kernels want them

    @classmethod
    def of(cls, lengths: Tensor, x: Tensor) -> Packing:
        """``lengths [B]`` on the CPU, ``x [B, L, …]`` on any device."""
        counts, width = lengths.numpy(), x.shape[1]
        order = np.argsort(-counts, kind="stable")
        steps = np.arange(counts.max())[:, None]
        inside = steps < counts[order]  # [longest, B]
        at = torch.from_numpy((order * width + steps)[inside])
        sizes = torch.from_numpy(inside.sum(1))
        return cls((len(counts), width), at.to(x.device, non_blocking=True), sizes)

    def pack(self, x: Tensor) -> PackedSequence:
        return PackedSequence(x.flatten(0, 1).index_select(0, self.at), self.batch_sizes)

    def unpack(self, data: Tensor) -> Tensor:
        """``[B, L, size]`` of ``data [tokens, size]``; zero under padding."""
        rows = data.new_zeros(self.shape[0] * self.shape[1], data.shape[-1])
        return rows.index_copy_(0, self.at, data).view(*self.shape, -1)
