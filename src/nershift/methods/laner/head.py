"""The label-aware head of LANER (§2.2): each tag is predicted from its token and from all tags before it.

:meth:`LabelAwareHead.next_tag` is the paper's eqs. 3-10 for one position. Everything else in this file calls it in a
loop over positions. The optional package ``fast`` computes all positions at once, with equal results.

Departures from the authors' public code are listed in README.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from nershift.config import setting
from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.heads.base import Head, register, widened
from nershift.heads.soft import SoftForm, SoftTargets
from nershift.heads.tags import TagHead, tag_nll, unpad

NEVER = float("-inf")  # score of a tag that the scheme forbids
IMPOSSIBLE = -1e9  # a finite one, for sums
MAX_CELLS = 50_000_000  # sentences × positions² × label units computed at a time: bounds memory


class Fast(Protocol):
    """What the optional package ``fast`` offers: the results of this file, computed for all positions at once."""

    def log_probabilities(self, head: LabelAwareHead, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor: ...
    def greedy(self, head: LabelAwareHead, states: Tensor, mask: Tensor) -> Tensor: ...
    def compare(self, head: LabelAwareHead, batches: Iterable[tuple[Tensor, Tensor]]) -> dict[str, float]: ...


fast: Fast | None = None  # set by the package's __init__.py if the folder fast/ is there


@dataclass(frozen=True)
class LabelAwareSettings:
    label_size: int = setting(100, "Units of a label vector and of each direction of the label LSTM (d2).", low=1)
    background: bool = setting(True, "Label background: the labels so far attend to all tokens (eqs. 4-6).")
    context: bool = setting(True, "Label context: the token attends to the labels so far (eqs. 7-8).")
    connect: bool = setting(True, "Eq. 7 reads token and label background; false: the token alone.")
    sampling: float = setting(
        0.0, "Share of gold tags in a prefix that training replaces by predicted ones; 0: none.", low=0, high=1
    )
    beam: int = setting(1, "Hypotheses kept when decoding; 1: greedy, as in the paper.", low=1)

    @property
    def shape(self) -> tuple[Any, ...]:
        """What the sizes of the layers follow from."""
        return self.label_size, self.background, self.context, self.connect


class LabelEncoder(nn.Module):
    """The BiLSTM over label vectors (``f_re`` of eq. 3); its directions are apart, since ``fast`` runs them apart."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.ahead = nn.LSTM(size, size, batch_first=True)
        self.back = nn.LSTM(size, size)

    def forward(self, vectors: Tensor) -> Tensor:
        """``[B, n, D]`` → ``[B, n, 2D]``."""
        backward = self.back(vectors.flip(1).transpose(0, 1))[0].transpose(0, 1).flip(1)
        return torch.cat([self.ahead(vectors)[0], backward], -1)


@register("label-aware")
class LabelAwareHead(TagHead):
    """``p(y_i | y_1 … y_{i-1}, X)`` (eq. 1) from token states, a BiLSTM over the labels so far, and two attentions.

    Example:
        >>> head = LabelAwareHead(LabelSpace.of(["LOC"], "BIO"), 4, LabelAwareSettings(label_size=3))
        >>> states, mask = torch.zeros(2, 3, 4), torch.tensor([[True] * 3, [True, False, False]])
        >>> [len(tags) for tags in head.decode(states, mask)]
        [3, 1]
    """

    retired = ("draft",)  # a linear layer that once guessed tags for parallel decoding
    # [C + 1, C]: tag before × tag, those that may not be predicted among them; the last row starts a sentence.
    _forbidden: Tensor
    _unfinished: Tensor  # [C]: tags that cannot end a sentence
    _choice: Tensor | None = None  # [C]: tags that the loss compares; None: all

    Settings = LabelAwareSettings
    cuda_graph_safe = True
    gives_soft = "tags"
    takes_soft: ClassVar[tuple[SoftForm, ...]] = ("tags",)

    @classmethod
    def new(cls, space: LabelSpace, size: int, settings: LabelAwareSettings) -> LabelAwareHead:
        return cls(space, size, settings)

    def __init__(self, space: LabelSpace, size: int, settings: LabelAwareSettings | None = None) -> None:
        settings = settings or LabelAwareSettings()
        labels = 2 * settings.label_size  # of a state of the label encoder
        super().__init__(space, size + size * settings.background + labels * settings.context)  # W_o, b_o
        self.settings = settings
        self.labels = nn.Embedding(len(space) + 1, settings.label_size)  # U; the last row is the start label
        self.prefixes = LabelEncoder(settings.label_size)
        if settings.background:
            self.query = nn.Linear(labels, size)  # W_2, b_2
        if settings.context:
            connect = settings.background and settings.connect
            self.reader = nn.Linear(size * (2 if connect else 1), labels)  # W_3, b_3
        self.register_buffer("_forbidden", _illegal(space), persistent=False)
        self.register_buffer("_unfinished", ~torch.tensor(space.legal_ends), persistent=False)

    def parameters_by_tag(self) -> list[tuple[Tensor, int]]:
        return [*super().parameters_by_tag(), (self.labels.weight, 1)]

    def restrict(self, types: Iterable[str]) -> None:
        super().restrict(types)
        # In place, where recorded decoding reads it.
        self._forbidden.copy_(_illegal(self.space).to(self._predicted.device) | ~self._predicted)

    @torch.no_grad()
    def start_from(self, other: Head, mapping: Mapping[str, str]) -> bool:
        """All layers, and the rows of the types that mean the same; settings that shape the layers must agree."""
        if not isinstance(other, LabelAwareHead) or other.settings.shape != self.settings.shape:
            return False
        for part in ("prefixes", "query", "reader"):
            if hasattr(other, part):
                getattr(self, part).load_state_dict(getattr(other, part).state_dict())
        self.labels.weight[-1] = other.labels.weight[-1].to(self.labels.weight)  # the start label
        return super().start_from(other, mapping)

    def describe(self) -> dict[str, Any]:
        settings = {f.name: getattr(self.settings, f.name) for f in fields(LabelAwareSettings)}
        return super().describe() | {"settings": settings}

    # -- the model -----------------------------------------------------------------------------------------

    def next_tag(self, states: Tensor, mask: Tensor, before: Tensor) -> Tensor:
        """Log probabilities ``[B, C]`` of the tag behind the tags ``before [B, i]``: eqs. 3-10 for token i."""
        with torch.autocast(states.device.type, enabled=False):
            states = widened(states)  # [B, L, H]
            token = states[:, before.shape[1]]  # h_i, [B, H]
            start = before.new_full((len(before), 1), len(self.space))
            labels = self.prefixes(self.labels(torch.cat([start, before], 1)))  # eq. 3: e, [B, i + 1, 2D]
            features = [token]
            if self.settings.background:
                query = self.query(labels[:, -1])  # eq. 4: [B, H]
                features.append(_attend(query, states, mask))  # eqs. 5-6: h^b_i, [B, H]
            if self.settings.context:
                query = self.reader(torch.cat(features, -1) if self.settings.connect else token)  # eq. 7: [B, 2D]
                features.append(_attend(query, labels))  # eq. 8: e^c_i, [B, 2D]
            return self.project(torch.cat(features, -1)).log_softmax(-1)  # eqs. 9-10

    def log_probabilities(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Of every tag at every position, given ``tags [B, L]`` before it: ``[B, L, C]``."""
        if parallel := self._fast(states):
            return parallel.log_probabilities(self, states, mask, tags)
        return torch.stack([self.next_tag(states, mask, tags[:, :i]) for i in range(tags.shape[1])], 1)

    @staticmethod
    def _fast(states: Tensor) -> Fast | None:
        return fast if states.device.type in ("cpu", "cuda") else None

    def loss(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Teacher forcing (footnote 2), except for the share of tags that ``sampling`` replaces."""
        tags = tags.masked_fill(~mask, 0)
        before = tags
        if self.training and self.settings.sampling:
            before = self._sampled(states, mask, tags)
        scores = self.log_probabilities(states, mask, before)
        if self._choice is not None:
            scores = _among(scores, self._choice)
        return tag_nll(scores, mask, tags)

    def tags_of(self, types: Iterable[str]) -> Tensor:
        """``[C]``: ``O`` and the tags of these types."""
        tags = {0, *self._tags_of(set(types))}
        return torch.tensor([i in tags for i in range(len(self.space))])

    @contextmanager
    def choosing_among(self, tags: Tensor) -> Iterator[None]:
        """Within, the loss compares the gold tag with these tags ``[C]`` alone."""
        self._choice = tags
        try:
            yield
        finally:
            self._choice = None

    def _answer_loss(self, states: Tensor, mask: Tensor, targets: Tensor) -> Tensor:
        tags = targets.masked_fill(~mask, 0)
        return tag_nll(self._predictable(self.log_probabilities(states, mask, tags)), mask, tags)

    def _predictable(self, scores: Tensor) -> Tensor:
        """Log probabilities ``[…, C]`` among the tags that the head may predict."""
        if self.predicted_types == self.types:
            return scores
        return _among(scores, self._predicted)

    @torch.no_grad()
    def _sampled(self, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
        """Scheduled sampling: predictions from gold tags replace some of the gold tags."""
        predicted = self.log_probabilities(states, mask, tags).argmax(-1)
        return torch.where(torch.rand(tags.shape, device=tags.device) < self.settings.sampling, predicted, tags)

    # -- soft targets --------------------------------------------------------------------------------------

    @torch.no_grad()
    def soft_targets(self, states: Tensor, mask: Tensor, student: Head, temperature: float = 1.0) -> SoftTargets:
        """Of each tag given the tags that the head itself predicts before it, which are too many to sum over."""
        ours, size = self.tags_for(student), self._batch_size(mask.shape[1])
        parts = []
        for part, shown in zip(states.split(size), mask.split(size), strict=True):
            scores = self._predictable(self.log_probabilities(part, shown, self._decoded(part, shown)))
            chances = torch.softmax(scores / (self.temperature * temperature), -1)
            parts.append(chances.masked_fill(~shown[..., None], 0.0)[..., ours])
        return SoftTargets.of_tokens(torch.cat(parts))

    def soft_loss(self, states: Tensor, mask: Tensor, soft: SoftTargets) -> Tensor:
        """Teacher forcing as in :meth:`loss`, with the teacher's likeliest tags before each token."""
        logs = self.log_probabilities(states, mask, soft.tokens.argmax(-1))
        return -(soft.tokens.to(logs) * logs).sum((1, 2))  # targets are zero under padding

    # -- decoding ------------------------------------------------------------------------------------------

    @torch.no_grad()
    def decode(self, states: Tensor, mask: Tensor) -> list[list[int]]:
        """Legal tags, greedily from left to right, or the best sequence that the beam finds."""
        size, paths = self._batch_size(mask.shape[1]), list[list[int]]()
        for part, shown in zip(states.split(size), mask.split(size), strict=True):
            paths += unpad(self._decoded(part, shown), shown)
        return paths

    def _decoded(self, states: Tensor, mask: Tensor) -> Tensor:
        """``[B, L]``, 0 under padding."""
        if self.settings.beam > 1:
            return self.beam(states, mask)
        parallel = self._fast(states)
        return parallel.greedy(self, states, mask) if parallel else self.greedy(states, mask)

    def _batch_size(self, length: int) -> int:
        return max(1, MAX_CELLS // (length**2 * self.settings.label_size * self.settings.beam))

    @torch.no_grad()
    def greedy(self, states: Tensor, mask: Tensor) -> Tensor:
        """Greedy decoding, token by token: ``[B, L]``, 0 under padding."""
        tags = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
        for i in range(mask.shape[1]):
            scores = self.next_tag(states, mask, tags[:, :i])[:, None]
            tags[:, i] = self.legal(scores, tags, mask, i)[:, 0].argmax(-1)
        return tags.masked_fill(~mask, 0)

    @torch.no_grad()
    def beam(self, states: Tensor, mask: Tensor) -> Tensor:
        """The most probable of the sequences kept at each position (W of them): ``[B, L]``, 0 under padding."""
        width, (batch, length) = self.settings.beam, mask.shape
        states, masks = (x.repeat_interleave(width, 0) for x in (states, mask))  # [B·W, …]
        tags = torch.zeros(batch, width, length, dtype=torch.long, device=mask.device)
        totals = torch.full((batch, width), NEVER, device=mask.device)
        totals[:, 0] = 0.0  # all hypotheses start equal, so only one may count
        sentence = torch.arange(batch, device=mask.device)[:, None]
        for i in range(length):
            flat = tags.flatten(0, 1)  # [B·W, L]
            scores = self._predictable(self.next_tag(states, masks, flat[:, :i]))[:, None]
            scores = self.legal(scores, flat, masks, i)
            scores = scores[:, 0].unflatten(0, (batch, width))  # [B, W, C]
            ended = torch.full_like(scores, NEVER)
            ended[..., 0] = 0.0  # behind its end a sentence has one way to go on
            scores = torch.where(mask[:, i, None, None], scores, ended)
            totals, best = (totals[..., None] + scores).flatten(1).topk(width, dim=1)
            tags = tags[sentence, best // scores.shape[-1]]
            tags[:, :, i] = best % scores.shape[-1]
        return tags[:, 0].masked_fill(~mask, 0)

    def legal(self, scores: Tensor, tags: Tensor, mask: Tensor, first: int) -> Tensor:
        """Scores ``[B, R, C]`` of positions ``first`` on, with -inf for tags that the scheme forbids there."""
        return self.legal_after(self.legal_ends(scores, mask, first), tags, first)

    def legal_ends(self, scores: Tensor, mask: Tensor, first: int) -> Tensor:
        """-inf for tags that cannot end a sentence, at the last token of each."""
        ends = mask & ~functional.pad(mask, (0, 1))[:, 1:]
        return scores.masked_fill(ends[:, first : first + scores.shape[1], None] & self._unfinished, NEVER)

    def legal_after(self, scores: Tensor, tags: Tensor, first: int) -> Tensor:
        """-inf for tags that cannot follow the tag before, or cannot start a sentence."""
        before = functional.pad(tags, (1, 0), value=len(self.space))[:, first : first + scores.shape[1]]
        return scores.masked_fill(self._forbidden[before], NEVER)

    # -- confidence ----------------------------------------------------------------------------------------

    @torch.no_grad()
    def confidences(self, states: Tensor, mask: Tensor, spans: Sequence[Sequence[Span]]) -> list[list[float]]:
        """The probability of a span's tags given its sentence and the spans before it.

        Spans that overlap are scored in separate taggings of the sentence.
        """
        length = mask.shape[1]
        taggings = [(b, layer) for b, mine in enumerate(spans) for layer in _layers(mine)]
        out = [[0.0] * len(mine) for mine in spans]
        size = self._batch_size(length)
        for at in range(0, len(taggings), size):
            part = taggings[at : at + size]
            rows = torch.tensor([b for b, _ in part], device=mask.device)
            paths = [self.space.encode(sorted(spans[b][s] for s in layer), length) for b, layer in part]
            tags = torch.tensor(paths, device=mask.device)
            scores = self._predictable(self.log_probabilities(states[rows], mask[rows], tags))
            scores = functional.log_softmax(scores / self.temperature, -1).gather(2, tags[..., None])[..., 0]
            sums = functional.pad(scores.double().cumsum(1), (1, 0)).cpu()
            for (b, layer), total in zip(part, sums, strict=True):
                for s in layer:
                    out[b][s] = float((total[spans[b][s].end] - total[spans[b][s].start]).exp())
        return out


def _illegal(space: LabelSpace) -> Tensor:
    """Steps that the scheme forbids, ``[C + 1, C]``; the last row is the start of a sentence."""
    return ~torch.tensor([*space.legal_steps, space.legal_starts])


def _among(scores: Tensor, tags: Tensor) -> Tensor:
    """Log probabilities ``[…, C]`` among the ``tags`` alone."""
    return functional.log_softmax(scores.masked_fill(~tags, IMPOSSIBLE), -1)


def _attend(query: Tensor, states: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mean of ``states [B, n, D]`` under a softmax of their products with ``query [B, D]``: ``[B, D]``."""
    scores = (states @ query[..., None])[..., 0]  # [B, n]
    if mask is not None:
        scores = scores.masked_fill(~mask, NEVER)
    return (scores.softmax(1)[:, None] @ states)[:, 0]


def _layers(spans: Sequence[Span]) -> list[list[int]]:
    """Indices of the spans in groups without an overlap, as few groups as greedy filling needs."""
    layers = list[list[int]]()
    for s in sorted(range(len(spans)), key=lambda s: spans[s]):
        for layer in layers:
            if spans[layer[-1]].end <= spans[s].start:
                layer.append(s)
                break
        else:
            layers.append([s])
    return layers
