"""Heads that give every token a tag. Tags are private to them: the rest of the code sees spans."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from nershift.data.labels import LabelSpace, split_tag
from nershift.data.spans import Sentence, Span
from nershift.errors import DataError
from nershift.heads.base import Head, Targets, how_to_overlap


class TagHead(Head):
    """Scores the tags of a label space with one linear layer, a row a tag."""

    def __init__(self, space: LabelSpace, size: int) -> None:
        super().__init__(space.types)
        self.space = space
        self.project = nn.Linear(size, len(space))

    @classmethod
    def new(cls, space: LabelSpace, size: int, settings: Any) -> Head:
        return cls(space, size)

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"scheme": self.space.scheme}

    def fits(self, space: LabelSpace) -> bool:
        return self.space == space

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
        self.kept_rows = dict(mapping)
        return True


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
