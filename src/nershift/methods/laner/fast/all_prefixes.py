"""Eqs. 3-10 of LANER for all positions of a batch at once, each with the tags before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.functional import linear

from nershift.backend.device import look_up
from nershift.heads.base import widened
from nershift.methods.laner.fast.attention import attend
from nershift.methods.laner.fast.prefix_states import backward_states, forward_states, fused_context, newest_states
from nershift.methods.laner.head import NEVER, LabelAwareHead


@dataclass(frozen=True)
class AllPrefixes:
    """A head and a batch: what its layers make of the tokens, computed once, however often the tags change.

    Every layer is linear, so its outputs for the token, the background (a mean of tokens) and the context can be
    computed apart and added, and the mean of projected tokens is the projected mean.
    """

    head: LabelAwareHead
    mask: Tensor  # [B, L]
    tokens: Mapping[str, Tensor]  # outputs of the layers, [B, L, …] each
    newest: Tensor  # [K, D]: backward state at the last label of a prefix, by label

    @classmethod
    def read(cls, head: LabelAwareHead, states: Tensor, mask: Tensor) -> AllPrefixes:
        with torch.autocast(states.device.type, enabled=False):
            states = widened(states)
            size, settings = states.shape[-1], head.settings
            out = head.project.weight.split([size, head.project.in_features - size], 1)
            tokens = {"out": linear(states, out[0], head.project.bias)}
            if settings.context:
                tokens["reader"] = linear(states, head.reader.weight[:, :size], head.reader.bias)
            if settings.background:
                tokens["keys"] = states @ head.query.weight  # [B, L, 2D], of eqs. 4-5
                tokens["key_bias"] = states @ head.query.bias  # [B, L]
                tokens["background_out"] = linear(states, out[1][:, :size])
                if settings.context and settings.connect:
                    tokens["background_reader"] = linear(states, head.reader.weight[:, size:])
            return cls(head, mask, tokens, newest_states(head.prefixes, head.labels.weight))

    def select(self, rows: Tensor, length: int) -> AllPrefixes:
        """Some of the sentences, cut to ``length``."""
        if len(rows) == len(self.mask) and length == self.mask.shape[1]:
            return self
        tokens = {k: v[:, :length].index_select(0, rows) for k, v in self.tokens.items()}
        return AllPrefixes(self.head, self.mask[rows, :length], tokens, self.newest)

    def log_probabilities(self, tags: Tensor, first: int = 0, wanted: Tensor | None = None) -> Tensor:
        """Of every tag at positions ``first`` on, given the tags before each: ``[B, R, C]``.

        Args:
            tags: ids, ``[B, L]``.
            wanted: bool, ``[B, L]``: positions whose result matters; by default all tokens.
        """
        head, settings, tokens = self.head, self.head.settings, self.tokens
        with torch.autocast(tags.device.type, enabled=False):
            start = tags.new_full((len(tags), 1), len(head.space))
            prefix = torch.cat([start, tags[:, :-1]], 1)  # [B, L]: position i reads labels 0..i
            ahead = forward_states(head.prefixes, head.labels.weight, prefix)  # [B, L, D]
            scores = tokens["out"][:, first:]  # u of eq. 10, the token's part
            shares = None
            if settings.background:
                newest = look_up(self.newest, prefix[:, first:])
                shares = self.background(torch.cat([ahead[:, first:], newest], -1))
                scores = scores + shares @ tokens["background_out"]  # h^b of eq. 6
            if settings.context:
                query = tokens["reader"][:, first:]  # eq. 7, [B, R, 2D]
                if shares is not None and settings.connect:
                    query = query + shares @ tokens["background_reader"]
                live = self.mask if wanted is None else wanted
                context = self._context(query, prefix, ahead, live, first)
                scores = scores + linear(context, head.project.weight[:, -context.shape[-1] :])  # eq. 9
            return functional.log_softmax(scores, -1)

    def background(self, last: Tensor) -> Tensor:
        """Attention of the last label state ``[B, R, 2D]`` to each token: ``[B, R, L]`` (eqs. 4-5)."""
        scores = last @ self.tokens["keys"].transpose(1, 2) + self.tokens["key_bias"][:, None]
        return scores.masked_fill(~self.mask[:, None], NEVER).softmax(-1)

    def _context(self, query: Tensor, prefix: Tensor, ahead: Tensor, live: Tensor, first: int) -> Tensor:
        """Mean state of the labels before each token, as the token attends to them: ``[B, R, 2D]`` (eq. 8)."""
        encoder, table = self.head.prefixes, self.head.labels.weight
        q_ahead, q_back = query.chunk(2, -1)  # [B, R, D] each
        scores = q_ahead @ ahead.transpose(1, 2)
        fused = fused_context(encoder, table, prefix, ahead, q_back, scores, live, first)
        if fused is not None:
            return fused
        back, where = backward_states(encoder, table, prefix, live, first)
        shares, context = attend(back, where, q_back, scores, first)
        return torch.cat([shares @ ahead, context], -1)
