"""What the head of one label space knows, carried over to that of another: types that mean the same keep their rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nershift.data.labels import LabelSpace, split_tag
from nershift.heads.base import Head
from nershift.heads.crf.head import CRFHead
from nershift.heads.softmax import SoftmaxHead


def like_tags(new: LabelSpace, old: LabelSpace, origin: Mapping[str, str]) -> list[tuple[int, int]]:
    """Tags of ``new`` with the tags of ``old`` that they come from: ``O``, and those of the types in ``origin``.

    Tags whose letter the old scheme lacks come from nowhere.

    Args:
        origin: new type → old type.
    """
    found = [(0, 0)]
    for row, tag in enumerate(new.tags[1:], 1):
        letter, label = split_tag(tag)
        before = old.index.get(f"{letter}-{origin.get(label, '')}")
        if before is not None:
            found.append((row, before))
    return found


def is_all_rows(head: Head) -> bool:
    """Whether :func:`carry_rows` carries all that such a head knows of a type."""
    return type(head) in (CRFHead, SoftmaxHead)


@torch.no_grad()
def carry_rows(new: Head, old: Head, origin: Mapping[str, str]) -> None:
    """Give the tags of ``new`` the rows of those they come from, and a CRF its transitions among them.

    Both are of one kind. What comes from nowhere keeps its random start.
    """
    to, from_ = zip(*like_tags(new.space, old.space, origin), strict=True)
    pairs = [(new.project.weight, old.project.weight), (new.project.bias, old.project.bias)]
    if isinstance(new, CRFHead) and isinstance(old, CRFHead):
        pairs += [(new.starts, old.starts), (new.ends, old.ends)]
        _copy(new.transitions, (_column(to), _row(to)), old.transitions, (_column(from_), _row(from_)))
    for ours, theirs in pairs:
        _copy(ours, (_row(to),), theirs, (_row(from_),))


def _copy(new: Tensor, to: tuple[Tensor, ...], old: Tensor, from_: tuple[Tensor, ...]) -> None:
    """The two may be on different devices: a head is made on the CPU, the old one is where it was trained."""
    new[to] = old[tuple(i.to(old.device) for i in from_)].to(new)


def _row(rows: Sequence[int]) -> Tensor:
    return torch.tensor(rows)


def _column(rows: Sequence[int]) -> Tensor:
    return torch.tensor(rows)[:, None]
