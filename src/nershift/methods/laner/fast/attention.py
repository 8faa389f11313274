"""Attention of each position over the states of its own prefix, without a tensor of all (position, label) states."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from nershift.backend.device import look_up

_BLOCK = 4  # positions at a time: later labels are skipped, and the states stay in the cache
_BLOCK_CUDA = 64  # launches cost more than arithmetic there


def attend(nodes: Tensor, where: Tensor, query: Tensor, scores: Tensor, first: int) -> tuple[Tensor, Tensor]:
    """Softmax over the labels up to each position, and the mean state under it (eq. 8).

    Args:
        nodes: states, ``[N, D]``.
        where: node of (sentence, position, label), ``[B, R, n]``; positions count from ``first``.
        query: ``[B, R, D]``.
        scores: added to the products of query and states, ``[B, R, n]``.

    Returns:
        shares ``[B, R, n]``, zero for later labels, and mean states ``[B, R, D]``.
    """
    return _Attend.apply(nodes, where, query, scores, first)


def _blocks(where: Tensor, first: int) -> list[tuple[slice, int]]:
    """Rows of each block, and how many labels its positions may see."""
    size, rows = _BLOCK_CUDA if where.is_cuda else _BLOCK, where.shape[1]
    return [(slice(r, min(r + size, rows)), first + min(r + size, rows)) for r in range(0, rows, size)]


def _row_products(query: Tensor, states: Tensor) -> Tensor:
    """``[B, r, D]`` and ``[B, r, k, D]`` → ``[B, r, k]``.

    On a CPU one product of all r with all r, whose diagonal is used, is faster than r thin ones.
    """
    if query.is_cuda:
        return (states @ query[..., None])[..., 0]
    crossed = query @ states.flatten(1, 2).transpose(1, 2)  # [B, r, r·k]
    return crossed.unflatten(2, states.shape[1:3]).diagonal(dim1=1, dim2=2).transpose(1, 2)


def _row_means(shares: Tensor, states: Tensor) -> Tensor:
    """``[B, r, k]`` and ``[B, r, k, D]`` → ``[B, r, D]``, likewise."""
    if shares.is_cuda:
        return (shares[:, :, None] @ states)[:, :, 0]
    crossed = torch.diag_embed(shares.transpose(1, 2), dim1=1, dim2=2)  # [B, r, r, k]
    return crossed.flatten(2) @ states.flatten(1, 2)


class _Attend(torch.autograd.Function):
    """Saves the shares alone and looks the states up again for the gradient."""

    @staticmethod
    def forward(
        ctx: Any, nodes: Tensor, where: Tensor, query: Tensor, scores: Tensor, first: int
    ) -> tuple[Tensor, Tensor]:
        shares, means = torch.zeros_like(scores), torch.empty_like(query)
        n = where.shape[2]
        later = torch.ones(n, n, dtype=torch.bool, device=where.device).triu(1)[first:]  # [R, n]
        for rows, seen in _blocks(where, first):
            states = look_up(nodes, where[:, rows, :seen])  # [B, r, seen, D]
            total = scores[:, rows, :seen] + _row_products(query[:, rows], states)
            part = total.masked_fill(later[rows, :seen], float("-inf")).softmax(-1)
            shares[:, rows, :seen] = part
            means[:, rows] = _row_means(part, states)
        ctx.save_for_backward(nodes, where, query, shares)
        ctx.first = first
        return shares, means

    @staticmethod
    def backward(ctx: Any, d_shares: Tensor, d_means: Tensor) -> tuple[Tensor, None, Tensor, Tensor, None]:
        nodes, where, query, shares = ctx.saved_tensors
        d_nodes, d_query, d_scores = torch.zeros_like(nodes), torch.empty_like(query), torch.zeros_like(shares)
        for rows, seen in _blocks(where, ctx.first):
            at = where[:, rows, :seen]
            states, part = look_up(nodes, at), shares[:, rows, :seen]
            d_part = d_shares[:, rows, :seen] + _row_products(d_means[:, rows], states)
            d_total = part * (d_part - (part * d_part).sum(-1, keepdim=True))  # through the softmax
            d_scores[:, rows, :seen] = d_total
            d_query[:, rows] = _row_means(d_total, states)
            pair = torch.stack([d_total, part], -1)  # [B, r, seen, 2]
            d_states = pair @ torch.stack([query[:, rows], d_means[:, rows]], 2)  # [B, r, seen, D]
            d_nodes.index_add_(0, at.flatten(), d_states.flatten(0, 2))
        return d_nodes, None, d_query, d_scores, None
