"""Heads that give every token a tag. Tags are private to them: the rest of the code sees spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from nershift.data.labels import LabelSpace, split_tag
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError, SetupError
from nershift.heads.base import Head, LabelledStates, Targets, how_to_overlap, widened


class TagHead(Head):
    """Scores the tags of a label space with one linear layer, a row a tag."""

    row_starts: ClassVar[tuple[str, ...]] = ("random", "prototypes", "names")
    kept_outside = False  # does the row of ``O`` come from another head?
    _predicted: Tensor  # [C]: tags that it may predict

    def __init__(self, space: LabelSpace, size: int) -> None:
        super().__init__(space.types)
        self.space = space
        self.project = nn.Linear(size, len(space))
        self.register_buffer("_predicted", torch.ones(len(space), dtype=torch.bool), persistent=False)

    @classmethod
    def new(cls, space: LabelSpace, size: int, settings: Any) -> Head:
        return cls(space, size)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"scheme": self.space.scheme}

    def fits(self, space: LabelSpace) -> bool:
        return self.space == space

    def restrict(self, types: Iterable[str]) -> None:
        super().restrict(types)
        tags = {0, *self._tags_of(self.predicted_types)}
        self._predicted.copy_(torch.tensor([i in tags for i in range(len(self.space))]))

    def targets(self, sentence: Sentence) -> Targets:
        """The tag of each token, [L]."""
        if sentence.nested:
            raise DataError(
                f"a head of kind '{self.kind}' cannot learn entities that overlap",
                place=sentence.place,
                expected="flat entities",
                fix=how_to_overlap(),
            )
        return np.array(self.space.encode(sentence.spans, len(sentence), sentence.place), dtype=np.int64)

    @abstractmethod
    def decode(self, states: Tensor, mask: Tensor) -> list[list[int]]:
        """The best tags of each sentence, as many as it has tokens."""

    def predict(self, states: Tensor, mask: Tensor) -> list[list[Span]]:
        return [self.space.decode(tags) for tags in self.decode(states, mask)]

    def chain_scores(self) -> dict[str, Tensor]:
        """Scores of neighbouring tags, where the head has any: what a search needs beside the linear layer."""
        return {}

    def parameters_by_tag(self) -> list[tuple[Tensor, int]]:
        """Parameters with an entry for each tag, and along how many axes (a transition matrix: 2)."""
        return [(self.project.weight, 1), (self.project.bias, 1)]

    @torch.no_grad()
    def start_from(self, other: Head, mapping: Mapping[str, str]) -> bool:
        if type(other) is not type(self) or not isinstance(other, TagHead):
            return False
        ours, theirs = torch.tensor(matching_tags(self.space, other.space, mapping)).T
        for (new, axes), (old, _) in zip(self.parameters_by_tag(), other.parameters_by_tag(), strict=True):
            source = theirs.to(old.device)  # the old head may be on a GPU: a new one is made on the CPU
            if axes == 2:
                new[ours[:, None], ours] = old[source[:, None], source].to(new)
            else:
                new[ours] = old[source].to(new)
        self.kept_rows, self.kept_outside = dict(mapping), True
        return True

    @torch.no_grad()
    def start_from_states(self, batches: LabelledStates, types: Collection[str]) -> set[str]:
        """Rows become prototypes: a token takes the tag whose mean state is nearest.

        As ``-|x - c|² / 2 = x·c - |c|² / 2 + …``, a prototype is a row of a linear layer. Rows hold prototypes less the
        mean of all tokens, which tells nothing, all in one scale: their mean length is that of the kept rows, or of
        the random ones where none is kept. A bias lets a token halfway between the tag's mean and that of ``O`` score
        alike for both. A tag without a token has the mean of its type; ``O`` starts too if its row was not kept.
        """
        parts = [tag_sums(*batch, len(self.space)) for batch in batches]
        if not parts:
            return set()
        sums, counts = (torch.stack(part).sum(0).to(self.project.weight) for part in zip(*parts, strict=True))
        centre, seen = sums.sum(0) / counts.sum(), set[str]()
        for label in types:
            rows = self._tags_of([label])
            if counts[rows].sum():
                seen.add(label)
                absent = [row for row in rows if not counts[row]]
                sums[absent], counts[absent] = sums[rows].sum(0), counts[rows].sum()
        if seen:
            self._set_prototypes(sums / counts.clamp(min=1)[:, None], centre, types, seen, bool(counts[0]))
        return seen

    def _set_prototypes(
        self, means: Tensor, centre: Tensor, types: Collection[str], seen: Collection[str], outside: bool
    ) -> None:
        """Rows of the types ``seen``, among the new ``types``, from the mean states of tags ``[C, H]``."""
        rows, new = self._tags_of(seen), {*self._tags_of(types), *([] if self.kept_outside else [0])}
        part, bias, away = self.project.weight[:, : len(centre)], self.project.bias, means - centre
        known = [row for row in range(len(self.space)) if row not in new] or list(range(len(self.space)))
        scale = part[known].norm(dim=1).mean() / away[rows].norm(dim=1).mean().clamp(min=1e-9)
        if not outside:
            means[0] = centre
        elif not self.kept_outside:
            part[0] = scale * away[0]
            bias[0] = -part[0] @ (centre + means[0]) / 2
        part[rows] = scale * away[rows]
        halfway = (means[rows] + means[0]) / 2  # [R, H]
        bias[rows] = bias[0] + (halfway * (part[0] - part[rows])).sum(1)

    @torch.no_grad()
    def start_from_names(self, vectors: Mapping[str, Tensor]) -> set[str]:
        """The tags of a type look for states that resemble that of its name, at the mean length of the rows."""
        if not vectors:
            return set()
        part = self.project.weight[:, : len(next(iter(vectors.values())))]
        length = part.norm(dim=1).mean()
        for label, vector in vectors.items():
            part[self._tags_of([label])] = length * vector.to(part)
        return set(vectors)

    def tags_for(self, student: Head) -> list[int]:
        """Our tag for each tag of a student's head, which has the same tag scheme and no type that we lack."""
        if not isinstance(student, TagHead) or not set(student.space.tags) <= set(self.space.tags):
            raise SetupError(
                f"this head has other tags ({', '.join(self.space.tags)}) than the student's",
                place="head.scheme",
                expected="a student with the teacher's tag scheme, and no type that the teacher lacks",
                fix="set head.scheme to that of the teacher, or --set options.targets=hard",
            )
        return [self.space.index[tag] for tag in student.space.tags]

    def _tags_of(self, types: Collection[str]) -> list[int]:
        """The tags of these types, ``O`` not among them."""
        return [row for row, tag in enumerate(self.space.tags) if row and split_tag(tag)[1] in types]


def tag_sums(states: Tensor, mask: Tensor, tags: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Sum ``[C, H]`` and number ``[C]`` of the states of each of ``size`` tags."""
    states = widened(states)
    chosen = one_hot(tags[mask], size).to(states.dtype)  # [tokens, C]
    return chosen.T @ states[mask], chosen.sum(0)


def tag_nll(log_probabilities: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """Negative log-likelihood of the tags ``[B, L]`` of each sentence, from ``[B, L, C]``: ``[B]``."""
    chosen = log_probabilities.gather(2, tags.masked_fill(~mask, 0)[..., None])[..., 0]  # [B, L]
    return -chosen.masked_fill(~mask, 0.0).sum(1)


def matching_tags(new: LabelSpace, old: LabelSpace, mapping: Mapping[str, str]) -> list[tuple[int, int]]:
    """Tags of ``new`` with the tags of ``old`` they correspond to: ``O``, and those of the types in ``mapping``.

    A tag whose letter the old scheme lacks has no counterpart.

    Args:
        mapping: new type → old type.
    """
    pairs = [(0, 0)]
    for row, tag in enumerate(new.tags[1:], 1):
        letter, label = split_tag(tag)
        before = old.index.get(f"{letter}-{mapping.get(label, '')}")
        if before is not None:
            pairs.append((row, before))
    return pairs


def unpad(ids: Tensor, mask: Tensor) -> list[list[int]]:
    """Rows of ids without their padding, as plain lists."""
    lengths = mask.sum(1).tolist()
    return [row[:length] for row, length in zip(ids.tolist(), lengths, strict=True)]


def legality(space: LabelSpace) -> dict[str, Sequence[Any]]:
    """Which steps, starts and ends the tag scheme allows, by the name of the buffer that holds them."""
    return {"_steps": space.legal_steps, "_starts": space.legal_starts, "_ends": space.legal_ends}
