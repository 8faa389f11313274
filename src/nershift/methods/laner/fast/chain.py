"""A tagger as if only the tag before counted: greedy decoding of that needs no pass through the tagger."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from nershift.backend.device import GpuKernel

NONE = float("-inf")
_carry = GpuKernel(
    "nershift.methods.laner.fast.on_gpu",
    "label-aware decoding goes back and forth between GPU and CPU, with equal results but slower",
    "carry",
)


def carries_on_gpu(kind: torch.dtype) -> bool:
    """Whether a GPU carries tags on by itself; else the CPU has a part in it, and nothing can be recorded."""
    return torch.promote_types(kind, torch.float32) == torch.float32 and not _carry.failed


@dataclass(frozen=True)
class Chain:
    """What the tag before adds to the scores of each position, if the tags before that one are the usual ones.

    Rows of ``p`` are tags before; the last is the start of a sentence. The usual tags are ``n`` labels long.
    """

    tokens: Tensor  # [B, L, C]: what the token says, whatever stands before it
    background: Tensor  # [B, C + 1, C]: what p adds in this sentence
    asked: Tensor  # [B, L, C + 1, n]: how the token looks at the n labels that end in p …
    offered: Tensor  # [B, C + 1, n]: … and what the sentence adds to that
    values: Tensor  # [C + 1, n, C]: what each of these labels adds to the scores
    forbidden: Tensor  # [C + 1, C]: tags that may not follow p

    def of(self, rows: Tensor, length: int) -> Chain:
        """Of some sentences, in their order, cut to ``length``."""
        if len(rows) == len(self.tokens) and length == self.tokens.shape[1]:
            return self
        tokens, asked = (x[:, :length].index_select(0, rows) for x in (self.tokens, self.asked))
        background, offered = (x.index_select(0, rows) for x in (self.background, self.offered))
        return replace(self, tokens=tokens, asked=asked, background=background, offered=offered)

    def scores(self, tags: Tensor) -> Tensor:
        """Of every tag given the one before it, ``[B, L, C]``."""
        return self.tokens + self._effect(self._before(tags, 0, tags.shape[1]), 0)

    def carried(self, scores: Tensor, best: Tensor, known: Tensor, open_: Tensor, first: int) -> Tensor:
        """Tags ``[B, n]`` from left to right, where every changed tag changes the scores behind it.

        Args:
            scores: of positions ``first`` on, given ``known``, ``[B, R, C]``.
            best: the best legal tags by these, given ``known``, ``[B, R]``: kept where the tag before is the known one.
            known: ``[B, n]``.
            open_: bool, ``[B, n]``: tags that may change.
        """
        last = first + scores.shape[1]
        before, here, may = self._before(known, first, last), known[:, first:last], open_[:, first:last]
        given = scores, torch.where(may, best, here), before, may
        found = self._on_gpu(*given, first) if scores.is_cuda else None
        if found is None:
            found = self._one_by_one(*given, first)
        return torch.cat([known[:, :first], found, known[:, last:]], 1)

    def _before(self, tags: Tensor, first: int, last: int) -> Tensor:
        return functional.pad(tags, (1, 0), value=len(self.values) - 1)[:, first:last]

    def _effect(self, before: Tensor, first: int) -> Tensor:
        """What the tags ``before [B, R]`` add to the scores, ``[B, R, C]``."""
        b = torch.arange(len(before), device=before.device)[:, None]
        i = torch.arange(first, first + before.shape[1], device=before.device)
        shares = (self.asked[b, i, before] + self.offered[b, before]).softmax(-1)  # [B, R, n]
        return self.background[b, before] + (shares[:, :, None] @ self.values[before])[:, :, 0]

    def _on_gpu(self, scores: Tensor, best: Tensor, before: Tensor, may: Tensor, first: int) -> Tensor | None:
        """The same by the GPU kernel; None where that cannot be had."""
        if not carries_on_gpu(scores.dtype):
            return None
        parts = self.asked, self.offered, self.background, self.values, self.forbidden
        found: Tensor | None = _carry(scores, best, before, may, *parts, first)
        return found

    def _one_by_one(self, scores: Tensor, best: Tensor, before: Tensor, may: Tensor, first: int) -> Tensor:
        """Positions in turn, and of each only the sentences whose tag before has changed."""
        told, was, free, given = (x.cpu().numpy() for x in (best, before, may, scores))
        asked, offered, background, values, forbidden = (
            x.cpu().numpy() for x in (self.asked, self.offered, self.background, self.values, self.forbidden)
        )

        def effect(b: np.ndarray, i: int, p: np.ndarray) -> np.ndarray:
            shares = asked[b, first + i, p] + offered[b, p]
            shares = np.exp(shares - shares.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            out: np.ndarray = background[b, p] + (shares[:, None] @ values[p])[:, 0]
            return out

        for i in range(1, told.shape[1]):
            (b,) = np.nonzero((told[:, i - 1] != was[:, i]) & free[:, i])
            if len(b):
                now = told[b, i - 1]
                moved = given[b, i] + effect(b, i, now) - effect(b, i, was[b, i])
                moved[forbidden[now]] = NONE
                told[b, i] = moved.argmax(1)
        return torch.from_numpy(told).to(best.device)
