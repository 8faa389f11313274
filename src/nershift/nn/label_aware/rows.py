"""What a label-aware decoder knows of its labels, carried over to one with another label space."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from nershift.data.labels import LabelSpace, normalised
from nershift.data.schemes import split_tag
from nershift.data.spans import Sentence
from nershift.data.type_names import LONG
from nershift.nn.encoder import Encoder
from nershift.nn.label_aware.decoder import LabelAwareDecoder
from nershift.nn.model import Batch


def joined_space(ours: LabelSpace, theirs: LabelSpace, same: Mapping[str, str]) -> LabelSpace:
    """Our types under our names, and those of theirs that we lack."""
    known = set(same.values())
    return LabelSpace.of([*ours.types, *(t for t in theirs.types if t not in known)], ours.scheme)


@torch.no_grad()
def nearest_types(encoder: Encoder, ours: Sequence[str], theirs: Sequence[str]) -> dict[str, str]:
    """Ours → the type of theirs whose name the encoder reads most alike."""
    if not ours or not theirs:
        return {}
    vectors = _name_vectors(encoder, [*ours, *theirs])
    likeness = vectors[: len(ours)] @ vectors[len(ours) :].T
    return {t: theirs[i] for t, i in zip(ours, likeness.argmax(1).tolist(), strict=True)}


@torch.no_grad()
def start_from_names(new: LabelAwareDecoder, encoder: Encoder, types: Sequence[str]) -> None:
    """Let the tags of ``types`` first look for tokens whose states are like that of the type's name.

    The token's part of a row in the classifier and in the draft becomes the name's state, as long as rows are there.
    """
    if len(types) < 2:  # one name alone has nothing to stand out from
        return
    vectors = dict(zip(types, _name_vectors(encoder, types), strict=True))
    for layer in (new.project, new.draft):
        part = layer.weight[:, : encoder.size]
        length = part.norm(dim=1).mean()
        for row, tag in enumerate(new.space.tags[1:], 1):
            label = split_tag(tag)[1]
            if label in vectors:
                part[row] = length * vectors[label].to(part)


def _name_vectors(encoder: Encoder, names: Sequence[str]) -> Tensor:
    """Mean states of the words of each name, at unit length, ``[N, H]``."""
    rows = [_words(name) for name in names]
    was_training = encoder.training
    encoder.eval()
    inputs = encoder.collate([encoder.prepare(words) for words in rows])
    device = next(encoder.parameters()).device
    batch = Batch("", [Sentence.of(words) for words in rows], inputs).to(device)
    states = encoder(**batch.inputs) * batch.mask[..., None]
    encoder.train(was_training)
    means = states.sum(1) / batch.mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(means - means.mean(0), dim=-1)  # what all names share says nothing


def _words(name: str) -> list[str]:
    """``'Restaurant_Name'`` → ``['restaurant', 'name']``; ``'PER'`` → ``['person']``."""
    parted = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", LONG.get(normalised(name), name))
    return re.findall(r"[^\W_]+", parted.lower()) or [name]


@torch.no_grad()
def carry_over(new: LabelAwareDecoder, old: LabelAwareDecoder, origin: Mapping[str, str]) -> None:
    """Give ``new`` the layers of ``old``, and to the tags of each type the rows of the type it comes from.

    Both must have the same settings. Types that ``origin`` (new → old) does not name keep their random rows, as do
    tags whose letter the old scheme lacks.
    """
    for part in ("prefixes", "query", "reader"):
        if hasattr(old, part):
            getattr(new, part).load_state_dict(getattr(old, part).state_dict())
    pairs = [(0, 0)]  # O
    for row, tag in enumerate(new.space.tags[1:], 1):
        letter, label = split_tag(tag)
        source = old.space.index.get(f"{letter}-{origin.get(label, '')}")
        if source is not None:
            pairs.append((row, source))
    to, from_ = (list(column) for column in zip(*pairs, strict=True))
    for layer in ("project", "draft"):
        for part in ("weight", "bias"):
            _copy_rows(getattr(getattr(new, layer), part), to, getattr(getattr(old, layer), part), from_)
    _copy_rows(new.labels.weight, [*to, -1], old.labels.weight, [*from_, -1])  # the last is the start label


def _copy_rows(new: Tensor, to: list[int], old: Tensor, from_: list[int]) -> None:
    """The two may be on different devices: a decoder is made on the CPU, the old one is where it was trained."""
    new[to] = old[from_].to(new.device)
