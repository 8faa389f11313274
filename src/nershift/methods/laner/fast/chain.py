"""The head as a first-order Markov chain: a score depends on the tag before alone, as if a typical prefix led up to it.

Decoding the chain takes table look-ups, no pass through the head. It guesses tags and corrects scores for a changed
tag; it never decides a tag (:mod:`.fixed_point`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import linear

from nershift.backend.device import GpuKernel, look_up
from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.prefix_states import forward_states
from nershift.methods.laner.head import NEVER, LabelAwareHead

PREFIX = 5  # labels of a typical prefix, the start label included
_propagate = GpuKernel(
    "nershift.methods.laner.fast.kernels",
    "label-aware decoding goes back and forth between GPU and CPU: equal results, but slower",
    "propagate",
)


def propagates_on_gpu(kind: torch.dtype) -> bool:
    """Whether a GPU propagates tags by itself; otherwise the CPU takes part, and no CUDA graph can be captured."""
    return torch.promote_types(kind, torch.float32) == torch.float32 and not _propagate.failed


@dataclass(frozen=True)
class Chain:
    """What the tag before (p) adds to the scores of a position if the tags before it are typical.

    The last row of ``p`` is the start of a sentence. ``n`` is the length of a typical prefix.
    """

    tokens: Tensor  # [B, L, C]: the token's own part of the score
    background: Tensor  # [B, C + 1, C]: what the label background after p adds in this sentence
    token_attention: Tensor  # [B, L, C + 1, n]: attention scores of the labels up to p, the token's part …
    background_attention: Tensor  # [B, C + 1, n]: … and the background's part
    values: Tensor  # [C + 1, n, C]: what each of these labels adds to the score under full attention
    forbidden: Tensor  # [C + 1, C]: tags that cannot follow p

    @classmethod
    def of(cls, batch: AllPrefixes) -> Chain:
        """The layers of the head with the typical prefix for each tag before."""
        head, tokens, (size, _) = batch.head, batch.tokens, batch.mask.shape
        with torch.autocast(batch.mask.device.type, enabled=False):
            states, tags = _typical_states(batch), len(head.space)  # [C + 1, n, 2D]
            background = tokens["out"].new_zeros(size, tags + 1, tags)
            values = background.new_zeros(tags + 1, PREFIX, tags)
            token_attention = values[..., 0]
            background_attention = token_attention.expand(size, -1, -1)
            if head.settings.background:
                shares = batch.background(states[:, -1].expand(size, -1, -1))  # [B, C + 1, L]
                background = shares @ tokens["background_out"]
            if head.settings.context:
                values = linear(states, head.project.weight[:, -states.shape[-1] :])
                token_attention = linear(tokens["reader"], states.flatten(0, 1)).unflatten(-1, states.shape[:2])
                if head.settings.background and head.settings.connect:
                    background_attention = torch.einsum("bpd,pnd->bpn", shares @ tokens["background_reader"], states)
            token_attention = token_attention.expand(*batch.mask.shape, -1, -1)
            return cls(tokens["out"], background, token_attention, background_attention, values, head._forbidden)

    def select(self, rows: Tensor, length: int) -> Chain:
        """Some of the sentences, cut to ``length``."""
        if len(rows) == len(self.tokens) and length == self.tokens.shape[1]:
            return self
        return replace(
            self,
            tokens=self.tokens[:, :length].index_select(0, rows),
            background=self.background.index_select(0, rows),
            token_attention=self.token_attention[:, :length].index_select(0, rows),
            background_attention=self.background_attention.index_select(0, rows),
        )

    def scores(self, tags: Tensor) -> Tensor:
        """Of every tag given the one before it, ``[B, L, C]``."""
        before = self._before(tags, 0, tags.shape[1])
        b = torch.arange(len(tags), device=tags.device)[:, None]
        i = torch.arange(tags.shape[1], device=tags.device)
        shares = (self.token_attention[b, i, before] + self.background_attention[b, before]).softmax(-1)  # [B, L, n]
        effect = self.background[b, before] + (shares[:, :, None] @ self.values[before])[:, :, 0]
        return self.tokens + effect

    def propagate(self, scores: Tensor, best: Tensor, known: Tensor, open_: Tensor, first: int) -> Tensor:
        """Tags ``[B, n]`` from left to right, where each changed tag changes the scores of the next position.

        Args:
            scores: of positions ``first`` on, given ``known``, ``[B, R, C]``.
            best: the best legal tags by these scores, ``[B, R]``: kept where the tag before has not changed.
            known: ``[B, n]``.
            open_: bool, ``[B, n]``: tags that may change.
        """
        last = first + scores.shape[1]
        before, here, may = self._before(known, first, last), known[:, first:last], open_[:, first:last]
        inputs = scores, torch.where(may, best, here), before, may
        tags = self._on_gpu(*inputs, first) if scores.is_cuda else None
        if tags is None:
            tags = self._on_cpu(*inputs, first)
        return torch.cat([known[:, :first], tags, known[:, last:]], 1)

    def _before(self, tags: Tensor, first: int, last: int) -> Tensor:
        return functional.pad(tags, (1, 0), value=len(self.values) - 1)[:, first:last]

    def _on_gpu(self, scores: Tensor, best: Tensor, before: Tensor, may: Tensor, first: int) -> Tensor | None:
        """By the CUDA kernel; None where it cannot be used."""
        if not propagates_on_gpu(scores.dtype):
            return None
        tables = self.token_attention, self.background_attention, self.background, self.values, self.forbidden
        tags: Tensor | None = _propagate(scores, best, before, may, *tables, first)
        return tags

    def _on_cpu(self, scores: Tensor, best: Tensor, before: Tensor, may: Tensor, first: int) -> Tensor:
        """Position by position, and of each only the sentences whose tag before has changed."""
        tags, old, free, given = (x.cpu().numpy() for x in (best, before, may, scores))
        by_token, by_background, background, values, forbidden = (
            x.cpu().numpy()
            for x in (self.token_attention, self.background_attention, self.background, self.values, self.forbidden)
        )

        def effect(b: np.ndarray, i: int, p: np.ndarray) -> np.ndarray:
            shares = by_token[b, first + i, p] + by_background[b, p]
            shares = np.exp(shares - shares.max(1, keepdims=True))
            shares /= shares.sum(1, keepdims=True)
            out: np.ndarray = background[b, p] + (shares[:, None] @ values[p])[:, 0]
            return out

        for i in range(1, tags.shape[1]):
            (b,) = np.nonzero((tags[:, i - 1] != old[:, i]) & free[:, i])
            if len(b):
                new = tags[b, i - 1]
                corrected = given[b, i] + effect(b, i, new) - effect(b, i, old[b, i])
                corrected[forbidden[new]] = NEVER
                tags[b, i] = corrected.argmax(1)
        return torch.from_numpy(tags).to(best.device)


def _typical_states(batch: AllPrefixes) -> Tensor:
    """States of the label BiLSTM over the typical prefix that ends in each tag, ``[C + 1, n, 2D]``; last, the start."""
    encoder, table, prefixes = batch.head.prefixes, batch.head.labels.weight, typical_prefixes(batch.head)
    ahead = forward_states(encoder, table, prefixes)  # [C, n, D]
    back = encoder.back(look_up(table, prefixes.flip(1).t()))[0].flip(0).transpose(0, 1)
    start = torch.cat([ahead[:1, :1], batch.newest[-1:, None]], -1)  # [1, 1, 2D]
    return torch.cat([torch.cat([ahead, back], -1), start.expand(-1, PREFIX, -1)])


def typical_prefixes(head: LabelAwareHead) -> Tensor:
    """Start label and, up to each tag, the first tag that may come before the next (mostly O): ``[C, PREFIX]``."""
    tags = len(head.space)
    before = (~head._forbidden[:-1]).int().argmax(0)  # O, where O may come before
    columns = [torch.arange(tags, device=before.device)]
    for _ in range(PREFIX - 2):
        columns.append(before[columns[-1]])
    return torch.stack([torch.full_like(before, tags), *reversed(columns)], 1)
