"""How the rows of a new label set start: label vectors and classifier rows from the head of another one (§2.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import torch

from nershift.data.labels import LabelSpace, split_tag
from nershift.encoders.base import Encoder
from nershift.heads.start import name_vectors
from nershift.heads.tags import matching_tags
from nershift.methods.laner.head import LabelAwareHead

OWN = 0.01  # share of its own random rows that a type keeps if others start as the same known type


def joined_space(ours: LabelSpace, theirs: LabelSpace, same: Mapping[str, str]) -> LabelSpace:
    """Our types under our names, and those of their types that we lack."""
    known = set(same.values())
    return LabelSpace.of([*ours.types, *(t for t in theirs.types if t not in known)], ours.scheme)


@torch.no_grad()
def nearest_types(encoder: Encoder, ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    """Each of our types → the one of theirs whose name has the most similar encoder state."""
    if not ours or not theirs:
        return {}
    vectors = name_vectors(encoder, [*ours, *theirs])
    likeness = vectors[: len(ours)] @ vectors[len(ours) :].T
    return {t: theirs[i] for t, i in zip(ours, likeness.argmax(1).tolist(), strict=True)}


@torch.no_grad()
def carry_over(new: LabelAwareHead, old: LabelAwareHead, same: Mapping[str, str], like: Mapping[str, str]) -> None:
    """Copy the layers of ``old`` to ``new``, and to the tags of each type the rows of the type it comes from.

    Both must have the same settings. Types that neither mapping names keep their random rows, as do tags whose prefix
    letter the old scheme lacks.

    Args:
        same: new → old, for types that mean the same: exact copies.
        like: new → old, for types that only start as another. If several start as one old type, each keeps a little
            of its own random rows: equal rows that no training sentence tells apart would tie in every score, and
            rounding would choose between them.
    """
    new.start_from(old, same)
    uses = Counter({**like, **same}.values())
    start_like = {label: source for label, source in like.items() if label not in same}
    for to, source in matching_tags(new.space, old.space, start_like)[1:]:  # the first is O
        own = OWN if uses[start_like[split_tag(new.space.tags[to])[1]]] > 1 else 0.0
        for (mine, _), (theirs, _) in zip(new.parameters_by_tag(), old.parameters_by_tag(), strict=True):
            # The two may be on different devices: a head is made on the CPU.
            mine[to] = torch.lerp(theirs[source].to(mine), mine[to], own)  # at 0 the old row to the last digit
