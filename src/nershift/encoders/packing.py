"""Padded batches to packed ones and back, each way by one look-up.

torch's own functions take a copy for each distinct length on the way in and one for each time step on the way back
of gradients, which on a GPU is most of what a recurrent layer of this size costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence


@dataclass(frozen=True)
class Packing:
    """Where the tokens of a padded batch ``[B, L, …]`` stand in the packed one.

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
        found, width = lengths.numpy(), x.shape[1]
        order = np.argsort(-found, kind="stable")
        steps = np.arange(found.max())[:, None]
        there = steps < found[order]  # [longest, B]
        at = torch.from_numpy((order * width + steps)[there])
        sizes = torch.from_numpy(there.sum(1))
        return cls((len(found), width), at.to(x.device, non_blocking=True), sizes)

    def pack(self, x: Tensor) -> PackedSequence:
        return PackedSequence(x.flatten(0, 1).index_select(0, self.at), self.batch_sizes)

    def unpack(self, data: Tensor) -> Tensor:
        """``[B, L, size]`` of ``data [tokens, size]``; zero under padding."""
        rows = data.new_zeros(self.shape[0] * self.shape[1], data.shape[-1])
        return rows.index_copy_(0, self.at, data).view(*self.shape, -1)
