"""What a teacher says of a batch as probabilities, for a student to learn from: the soft targets of heads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# What the probabilities are of. tags: each token's tag by itself. chain: also each pair of neighbouring tags.
# spans: each span and type by itself.
SoftForm = Literal["", "tags", "chain", "spans"]
SoftRow = tuple[NDArray[Any], NDArray[Any]]  # of one sentence: what its tokens have, and what it has as a whole


@dataclass(frozen=True)
class SoftTargets:
    """Probabilities for each sentence of a batch.

    ``tokens [B, L, …]`` are those of tags or spans at each token, zero under padding. ``whole [B, P]`` are sums over a
    sentence: how often a chain is expected to take each legal step. Its P is 0 where the form has none.
    """

    tokens: Tensor
    whole: Tensor

    @classmethod
    def of_tokens(cls, tokens: Tensor) -> SoftTargets:
        return cls(tokens, tokens.new_zeros(len(tokens), 0))

    @classmethod
    def of_rows(cls, rows: Sequence[SoftRow], mask: Tensor) -> SoftTargets:
        """The batch of these sentences; the inverse of :meth:`rows`."""
        flat = torch.from_numpy(np.concatenate([tokens for tokens, _ in rows]))
        tokens = torch.zeros((*mask.shape, *flat.shape[1:]), dtype=flat.dtype)
        tokens[mask.cpu()] = flat
        return cls(tokens, torch.from_numpy(np.stack([whole for _, whole in rows])))

    def rows(self, mask: Tensor) -> list[SoftRow]:
        """The same sentence by sentence, without padding, in single precision: what is kept."""
        tokens, whole = (x.detach().float().cpu().numpy() for x in (self.tokens, self.whole))
        lengths = mask.sum(1).tolist()
        # Copies: a view of a row would keep the whole batch in memory.
        return [(tokens[i, :length].copy(), whole[i].copy()) for i, length in enumerate(lengths)]

    def to(self, device: torch.device | str) -> SoftTargets:
        return SoftTargets(self.tokens.to(device, non_blocking=True), self.whole.to(device, non_blocking=True))


def mean_row(rows: Sequence[SoftRow]) -> SoftRow:
    """The mean of what several teachers say of one sentence.

    Expected counts are linear in the distribution, so for a chain this is exactly what the mixture of the teachers'
    distributions over whole paths expects.
    """
    tokens, whole = (np.mean(parts, axis=0) for parts in zip(*rows, strict=True))
    return tokens, whole
