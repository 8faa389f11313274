"""Both directions of a recurrent layer over sentences of different lengths, in the way the device runs fastest."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

_WEIGHTS = 4  # of a direction: from input, from state, and a bias of each


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
