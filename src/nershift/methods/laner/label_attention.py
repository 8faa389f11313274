"""Attention of each position over the states of its own prefix, without a tensor of all (position, label) states."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from nershift.backend.autograd import look_up

_BLOCK = 4  # positions at a time: no later label is looked at, and what is looked at stays in the cache
_BLOCK_CUDA = 64  # there launches cost more than arithmetic


def attend(nodes: Tensor, where: Tensor, query: Tensor, scores: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Softmax over the labels up to each position, and the mean state under it (eq. 8 of LANER).

    Args:
        nodes: states, ``[N, D]``.
        where: node of (sentence, position, label), ``[B, R, n]``; positions count from ``first``.
        query: ``[B, R, D]``.
        scores: what else adds to the scores, ``[B, R, n]``.

    Returns:
        shares ``[B, R, n]``, zero behind the position, and mean states ``[B, R, D]``.
    """
    return _Attend.apply(nodes, where, query, scores, first)


def attend_recent(recent: Tensor, query: Tensor, scores: Tensor) -> tuple[Tensor, Tensor]:
    """:func:`attend` over walks that end after M labels; a label further back has the state it was last given.

    All positions beyond a label's reach then see it in one state, and only the M - 1 newest labels of each position
    need states of their own.

    Args:
        recent: states by depth, ``[B, n, M, D]``.
    """
    n, depth = recent.shape[1], recent.shape[2] - 1
    far, near = recent[:, depth:, depth], recent[:, :, :depth]  # [B, n - M + 1, D], [B, n, M - 1, D]
    later, nearby, i, k, d = _band(n, depth, scores.device)
    total = scores.clone()
    total[:, :, : n - depth] += query @ far.transpose(1, 2)
    total[:, i, k] = scores[:, i, k] + (near @ query[..., None])[:, i, d, 0]
    shares = total.masked_fill(later, float("-inf")).softmax(-1)
    band = torch.zeros_like(scores[:, :, :depth])
    band[:, i, d] = shares[:, i, k]
    further = shares.masked_fill(nearby, 0.0)[:, :, : n - depth]
    return shares, further @ far + (band[:, :, None] @ near)[:, :, 0]


@lru_cache(maxsize=512)
def _band(n: int, depth: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Labels behind a position, and those nearby, ``[n, n]`` each; position, label and distance of the latter."""
    i, d = torch.meshgrid(torch.arange(n), torch.arange(depth), indexing="ij")
    there = i >= d
    pairs = torch.ones(n, n, dtype=torch.bool)
    parts = pairs.triu(1), pairs.tril() & ~pairs.tril(-depth), i[there], (i - d)[there], d[there]
    later, nearby, i, k, d = (part.to(device) for part in parts)
    return later, nearby, i, k, d


def _blocks(where: Tensor, first: int) -> list[tuple[slice, int]]:
    """Ranges of positions, and how many labels the last of each range may see."""
    size, rows = _BLOCK_CUDA if where.is_cuda else _BLOCK, where.shape[1]
    return [(slice(r, min(r + size, rows)), first + min(r + size, rows)) for r in range(0, rows, size)]


def _each_with_its_own(query: Tensor, states: Tensor) -> Tensor:
    """``[B, r, D]`` and ``[B, r, k, D]`` → ``[B, r, k]``.

    A CPU takes a product of all r with all r, of which the diagonal is used, faster than r thin ones.
    """
    if query.is_cuda:
        return (states @ query[..., None])[..., 0]
    crossed = query @ states.flatten(1, 2).transpose(1, 2)  # [B, r, r·k]
    return crossed.unflatten(2, states.shape[1:3]).diagonal(dim1=1, dim2=2).transpose(1, 2)


def _mean_of_its_own(shares: Tensor, states: Tensor) -> Tensor:
    """``[B, r, k]`` and ``[B, r, k, D]`` → ``[B, r, D]``, by the same means."""
    if shares.is_cuda:
        return (shares[:, :, None] @ states)[:, :, 0]
    crossed = torch.diag_embed(shares.transpose(1, 2), dim1=1, dim2=2)  # [B, r, r, k]
    return crossed.flatten(2) @ states.flatten(1, 2)


class _Attend(torch.autograd.Function):
    """Saves the shares alone; the states are looked up again for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, where: Tensor, query: Tensor, scores: Tensor, first: int
    ) -> tuple[Tensor, Tensor]:
        shares, means = torch.zeros_like(scores), torch.empty_like(query)
        n = where.shape[2]
        later = torch.ones(n, n, dtype=torch.bool, device=where.device).triu(1)[first:]  # [R, n]
        for rows, seen in _blocks(where, first):
            states = look_up(nodes, where[:, rows, :seen])  # [B, r, seen, D]
            total = scores[:, rows, :seen] + _each_with_its_own(query[:, rows], states)
            part = total.masked_fill(later[rows, :seen], float("-inf")).softmax(-1)
            shares[:, rows, :seen] = part
            means[:, rows] = _mean_of_its_own(part, states)
        ctx.save_for_backward(nodes, where, query, shares)
        ctx.first = first
        return shares, means

    @staticmethod
    def backward(ctx: Any, d_shares: Tensor, d_means: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        nodes, where, query, shares = ctx.saved_tensors
        d_nodes, d_query, d_scores = (
            torch.zeros_like(nodes),
            torch.empty_like(query),
            torch.zeros_like(shares),
        )
        for rows, seen in _blocks(where, ctx.first):
            at = where[:, rows, :seen]
            states, part = look_up(nodes, at), shares[:, rows, :seen]
            moved = d_shares[:, rows, :seen] + _each_with_its_own(d_means[:, rows], states)
            moved = part * (moved - (part * moved).sum(-1, keepdim=True))  # gradient of the scores
            d_scores[:, rows, :seen] = moved
            d_query[:, rows] = _mean_of_its_own(moved, states)
            pair = torch.stack([moved, part], -1)  # [B, r, seen, 2]
            d_states = pair @ torch.stack([query[:, rows], d_means[:, rows]], 2)  # [B, r, seen, D]
            d_nodes.index_add_(0, at.flatten(), d_states.flatten(0, 2))
        return d_nodes, None, d_query, d_scores, None
