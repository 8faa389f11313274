"""The label-aware head of LANER: each tag is predicted from its token and from all tags before it.

Where this differs from the authors' public code, and why:

- It runs over words, so no special token and no padding is ever part of a prefix, in training or in use (there,
  sub-words, ``[CLS]`` and padding enter the prefix, in training as an extra label, in use as whatever was predicted).
- ``O`` has a vector of its own that is trained (there, it shares the all-zero padding row).
- The empty prefix is a trained start label (there, the first position has layers that no loss ever reaches).
- All prefixes are read at once (there, one after the other), and a batch may hold a single sentence (there, a last
  batch of one ends training).
- Both attentions are masked (there, they see padding, so that results depend on the rest of the batch).
- Eq. 7 reads token and background together, as printed (``connect=False``: the token alone, the public default).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.functional import linear

from nershift.backend.autograd import look_up
from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.heads.base import Head, cut, register, widened
from nershift.methods.laner.fast.chain import NONE, Chain, carries_on_gpu
from nershift.methods.laner.fast.replayed import replayed
from nershift.methods.laner.fast.search import Reading, beam, fixed_point
from nershift.methods.laner.label_attention import attend, attend_recent
from nershift.methods.laner.prefixes import PrefixLSTM

CELLS = 50_000_000  # sentences × positions × positions × units decoded at a time, which bounds memory
USUAL = 5  # labels before a position that its chain reads, the start label included


@dataclass(frozen=True)
class LabelAwareSettings:
    label_size: int = 100  # d2: of a label's vector, and of each direction of the label LSTM
    background: bool = True  # LB: attention from the labels before to all tokens (eqs. 4-6)
    context: bool = True  # LC: attention from the token to the labels before (eqs. 7-8)
    connect: bool = True  # eq. 7 reads the background too
    sampling: float = 0.0  # share of gold tags in a training prefix that are replaced by predicted ones
    beam: int = 1  # hypotheses kept when decoding; 1: greedy, as in the paper


@register("label-aware")
class LabelAwareHead(Head):
    """``p(y_i | y_1 … y_{i-1}, X)`` (eq. 1) from token states, a label BiLSTM and two attentions.

    In training all prefixes of the gold tags are read in one go. Greedy decoding repeats that parallel pass from a
    guess until nothing changes, which gives the very tags of going from left to right; the guess comes from the same
    layers with a few usual labels in place of each prefix (:meth:`chain`).

    Example:
        >>> head = LabelAwareHead(LabelSpace.of(["LOC"], "BIO"), 4, {"label_size": 3})
        >>> states, mask = torch.zeros(2, 3, 4), torch.tensor([[True] * 3, [True, False, False]])
        >>> [len(tags) for tags in head.decode(states, mask)]
        [3, 1]
    """

    retired = ("draft",)  # a linear layer that made the guess
    _forbidden: Tensor  # [C + 1, C], before × after; the last row is the start of a sentence
    _open: Tensor  # [C]: tags that a sentence may not end with
    _usual: Tensor  # [C, USUAL]: labels that a prefix which ends in each tag has for its chain

    @classmethod
    def new(cls, space: LabelSpace, size: int, settings: Mapping[str, Any]) -> LabelAwareHead:
        return cls(space, size, settings)

    def __init__(self, space: LabelSpace, size: int, settings: Mapping[str, Any] | None = None) -> None:
        made = LabelAwareSettings(**(settings or {}))
        labels = 2 * made.label_size
        super().__init__(space, size + size * made.background + labels * made.context)  # W_o, b_o over u
        self.settings = made
        self.labels = nn.Embedding(len(space) + 1, made.label_size)  # U; the last row is the start label
        self.prefixes = PrefixLSTM(made.label_size)
        if made.background:
            self.query = nn.Linear(labels, size)  # W_2, b_2
        if made.context:
            reads = size * (2 if made.background and made.connect else 1)
            self.reader = nn.Linear(reads, labels)  # W_3, b_3
        allowed = torch.tensor([*space.legal_steps, space.legal_starts])
        self.register_buffer("_forbidden", ~allowed, persistent=False)
        self.register_buffer("_open", ~torch.tensor(space.legal_ends), persistent=False)
        self.register_buffer("_usual", _usual(allowed[:-1]), persistent=False)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"settings": asdict(self.settings)}

    def read(self, states: Tensor, mask: Tensor) -> Reading:
        """What the layers make of the tokens alone, computed once however often the tags change.

        Every layer is linear, so its share in a token, in a background (a mean of tokens) and in a context can be
        taken apart, and the mean of projected tokens is the projected mean.
        """
        with torch.autocast(states.device.type, enabled=False):
            states = widened(states)
            size, settings = states.shape[-1], self.settings
            out = self.project.weight.split([size, self.project.in_features - size], 1)
            parts = {"out": linear(states, out[0], self.project.bias)}
            if settings.context:
                parts["reader"] = linear(states, self.reader.weight[:, :size], self.reader.bias)
            if settings.background:
                parts["keys"] = states @ self.query.weight  # [B, L, 2D], of eqs. 4-5
                parts["key_bias"] = states @ self.query.bias  # [B, L]
                parts["background_out"] = linear(states, out[1][:, :size])
                if settings.context and settings.connect:
                    parts["background_reader"] = linear(states, self.reader.weight[:, size:])
            return Reading(parts, mask, {"newest": self.prefixes.newest(self.labels.weight)})

    def log_probabilities(
        self,
        reading: Reading,
        tags: Tensor,
        first: int = 0,
        last: int | None = None,
        wanted: Tensor | None = None,
        memory: int | None = None,
    ) -> Tensor:
        """Of every tag at positions ``first`` to ``last - 1``, given the tags before each: ``[B, last - first, C]``.

        Args:
            tags: ids, ``[B, L]``; those at ``last - 1`` and later are not read.
            wanted: bool, ``[B, L]``: positions whose result will be looked at, where these are not all.
            memory: a rough result for all positions, by backward walks of so many labels; None: the exact one.
        """
        with torch.autocast(tags.device.type, enabled=False):
            parts, last = reading.parts, tags.shape[1] if last is None else last
            start = tags.new_full((len(tags), 1), len(self.space))
            prefix = torch.cat([start, tags[:, : last - 1]], 1)  # [B, n], position i reads labels 0..i
            ahead = self.prefixes.forward_states(self.labels.weight, prefix)  # [B, n, D]
            scores = parts["out"][:, first:last]  # u of eq. 10, token part
            shares = None
            if self.settings.background:
                newest = look_up(reading.tables["newest"], prefix[:, first:])
                shares = self._background(parts, reading.mask, torch.cat([ahead[:, first:], newest], -1))
                scores = scores + shares @ parts["background_out"]  # h^b of eq. 6
            if self.settings.context:
                query = parts["reader"][:, first:last]  # eq. 7, [B, R, 2D]
                if shares is not None and self.settings.connect:
                    query = query + shares @ parts["background_reader"]
                live = reading.mask if wanted is None else wanted
                context = self._context(query, prefix, ahead, live[:, :last], first, memory)
                scores = scores + linear(context, self.project.weight[:, -context.shape[-1] :])  # eq. 9
            return functional.log_softmax(scores, -1)

    @staticmethod
    def _background(parts: Mapping[str, Tensor], mask: Tensor, newest: Tensor) -> Tensor:
        """How much the labels before look at each token: ``[B, R, 2D]`` → ``[B, R, L]`` (eqs. 4-5)."""
        scores = newest @ parts["keys"].transpose(1, 2) + parts["key_bias"][:, None]
        return scores.masked_fill(~mask[:, None], NONE).softmax(-1)

    def _context(
        self, query: Tensor, prefix: Tensor, ahead: Tensor, live: Tensor, first: int, memory: int | None
    ) -> Tensor:
        """What the token makes of the labels before it, ``[B, R, 2D]``."""
        q_ahead, q_back = query.chunk(2, -1)  # [B, R, D] each
        scores = q_ahead @ ahead.transpose(1, 2)
        if memory is None:
            table = self.labels.weight
            fused = self.prefixes.attended(table, prefix, ahead, q_back, scores, live, first)
            if fused is not None:
                return fused
            back, where = self.prefixes.backward_states(table, prefix, live, first)
            shares, context = attend(back, where, q_back, scores, first)  # eq. 8
        else:
            depth = min(memory, prefix.shape[1])
            recent = self.prefixes.recent_states(self.labels.weight, prefix, live, depth)
            shares, context = attend_recent(recent, q_back, scores)
        return torch.cat([shares @ ahead, context], -1)

    def chain(self, reading: Reading) -> Chain:
        """The same layers with a few usual labels for each tag before, in place of the prefix."""
        with torch.autocast(reading.mask.device.type, enabled=False):
            parts, tags = reading.parts, len(self.space)
            before = self._usual_states()  # [C + 1, n, 2D]
            background = parts["out"].new_zeros(len(reading.mask), tags + 1, tags)
            values = background.new_zeros(tags + 1, before.shape[1], tags)
            asked = values[..., 0]
            offered = asked.expand(len(reading.mask), -1, -1)
            if self.settings.background:
                newest = before[:, -1].expand(len(reading.mask), -1, -1)
                shares = self._background(parts, reading.mask, newest)  # [B, C + 1, L]
                background = shares @ parts["background_out"]
            if self.settings.context:
                values = linear(before, self.project.weight[:, -before.shape[-1] :])
                asked = linear(parts["reader"], before.flatten(0, 1)).unflatten(-1, before.shape[:2])
                if self.settings.background and self.settings.connect:
                    offered = torch.einsum("bpd,pnd->bpn", shares @ parts["background_reader"], before)
            shape = (*reading.mask.shape, -1, -1)
            return Chain(parts["out"], background, asked.expand(shape), offered, values, self._forbidden)

    def _usual_states(self) -> Tensor:
        """Of the label BiLSTM over the usual labels that end in each tag, ``[C + 1, n, 2D]``; last, over the start."""
        table = self.labels.weight
        ahead = self.prefixes.forward_states(table, self._usual)  # [C, n, D]
        back = self.prefixes.back(look_up(table, self._usual.flip(1).t()))[0].flip(0).transpose(0, 1)
        start = torch.cat([ahead[:1, :1], self.prefixes.newest(table)[-1:, None]], -1)  # [1, 1, 2D]
        return torch.cat([torch.cat([ahead, back], -1), start.expand(-1, USUAL, -1)])

    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Teacher forcing, but for the share of tags that sampling replaces."""
        tags = tags.masked_fill(~mask, 0)
        reading = self.read(states, mask)
        read = self._sampled(reading, tags) if self.training and self.settings.sampling else tags
        scores = self.log_probabilities(reading, read).gather(2, tags[..., None])[..., 0]
        return -scores.masked_fill(~mask, 0.0).sum(1)

    @torch.no_grad()
    def _sampled(self, reading: Reading, tags: Tensor) -> Tensor:
        """Scheduled sampling, all positions at once: what one parallel pass predicts replaces some gold tags."""
        found = self.log_probabilities(reading, tags).argmax(-1)
        return torch.where(torch.rand(tags.shape, device=tags.device) < self.settings.sampling, found, tags)

    @torch.no_grad()
    def decode(self, states: Tensor, mask: Tensor) -> list[list[int]]:
        """Legal tags, greedily from left to right, or the best sequence that the beam finds."""
        room = self._room(mask.shape[1], self.settings.beam)
        found = list[list[int]]()
        for part, shown in zip(states.split(room), mask.split(room), strict=True):
            if self.settings.beam > 1:
                found += cut(beam(self, part, shown, self.settings.beam), shown)
            else:
                alone = part.is_cuda and carries_on_gpu(part.dtype)
                tags = replayed(self, part, shown) if alone else None
                found += cut(fixed_point(self, part, shown).tags if tags is None else tags, shown)
        return found

    def _room(self, length: int, beam: int = 1) -> int:
        """Sentences to decode at a time."""
        return max(1, CELLS // (length**2 * self.settings.label_size * beam))

    def legal(self, scores: Tensor, tags: Tensor, mask: Tensor, first: int) -> Tensor:
        """Scores ``[B, R, C]`` of positions ``first`` on, with -inf for tags that may not follow the one before."""
        return self.following(self.ending(scores, mask, first), tags, first)

    def ending(self, scores: Tensor, mask: Tensor, first: int) -> Tensor:
        """The part of :meth:`legal` that no tag changes: with what may a sentence end?"""
        ends = mask & ~functional.pad(mask, (0, 1))[:, 1:]  # the last token of each sentence
        return scores.masked_fill(ends[:, first : first + scores.shape[1], None] & self._open, NONE)

    def following(self, scores: Tensor, tags: Tensor, first: int) -> Tensor:
        """The other part: what may follow the tag before, or begin a sentence?"""
        before = functional.pad(tags, (1, 0), value=len(self.space))[:, first : first + scores.shape[1]]
        return scores.masked_fill(self._forbidden[before], NONE)

    @torch.no_grad()
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """The probability of a span's tags given its sentence and the given spans before it.

        Spans that overlap are put into different readings of the sentence, the first that has room for each.
        """
        length = mask.shape[1]
        readings = [(b, layer) for b, mine in enumerate(spans) for layer in _layers(mine)]
        out = [[0.0] * len(mine) for mine in spans]
        room = self._room(length)
        for at in range(0, len(readings), room):
            part = readings[at : at + room]
            rows = torch.tensor([b for b, _ in part], device=mask.device)
            paths = [self.space.encode(sorted(spans[b][s] for s in layer), length) for b, layer in part]
            tags = torch.tensor(paths, device=mask.device)
            reading = self.read(states[rows], mask[rows])
            every = functional.log_softmax(self.log_probabilities(reading, tags) / self.temperature, -1)
            scores = every.gather(2, tags[..., None])[..., 0]
            sums = functional.pad(scores.double().cumsum(1), (1, 0)).cpu()
            for (b, layer), total in zip(part, sums, strict=True):
                for s in layer:
                    out[b][s] = float((total[spans[b][s].end] - total[spans[b][s].start]).exp())
        return out


def _usual(allowed: Tensor) -> Tensor:
    """Start label, and then up to each tag the first that may stand before the next, ``[C, USUAL]``.

    Args:
        allowed: bool, before × after, ``[C, C]``.
    """
    first = allowed.int().argmax(0)  # O, if O may
    columns = [torch.arange(len(allowed))]
    for _ in range(USUAL - 2):
        columns.append(first[columns[-1]])
    return torch.stack([torch.full_like(first, len(allowed)), *reversed(columns)], 1)


def _layers(spans: Sequence[Span]) -> list[list[int]]:
    """Numbers of the spans in as many groups as it takes for no group to have an overlap."""
    layers = list[list[int]]()
    for s in sorted(range(len(spans)), key=lambda s: spans[s]):
        for layer in layers:
            if spans[layer[-1]].end <= spans[s].start:
                layer.append(s)
                break
        else:
            layers.append([s])
    return layers
