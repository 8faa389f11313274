"""How the rows of new types start: from labelled sentences, from the names of the types, or at random.

A head starts in two steps. First it keeps the rows of types that another head has too
(:func:`nershift.heads.base.start_from_best`). Then :func:`start_new_rows` starts the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from nershift.data.labels import LONG, normalised
from nershift.data.spans import Sentence, by_length
from nershift.heads.base import Head, LabelledStates, on_device, pad_targets

if TYPE_CHECKING:
    from nershift.encoders.base import Encoder

RowStart = Literal["auto", "random", "prototypes", "names"]
# What `auto` means, by whether the encoder is pretrained on text and whether it was trained on a source. On dev, names
# are best with MiniLM; with a recurrent encoder and 1,000 updates the three are alike (table few-rows-dev).
AUTO: dict[tuple[bool, bool], RowStart] = {
    (True, True): "names",
    (True, False): "names",
    (False, True): "names",
    (False, False): "random",  # states of random weights tell little
}
IN_WORDS = {
    "random": "at random",
    "prototypes": "from prototypes of the labelled sentences",
    "names": "from their names",
}
MOST = 500  # sentences that prototypes are taken from: a mean needs no more
_BATCH = 32


def start_new_rows(
    head: Head,
    encoder: Encoder,
    sentences: Sequence[Sentence],
    how: RowStart = "prototypes",
    types: Iterable[str] | None = None,
    trained: bool = True,
) -> None:
    """Start the rows of ``types``. It draws no random number and leaves the encoder as it is.

    What cannot start as told keeps its random rows: a type without a labelled token, one name alone, a head that
    cannot follow. ``head.new_rows`` says how each type started.

    Args:
        sentences: labelled with types of the head.
        types: by default those whose rows come from no other head.
        trained: was the encoder trained on a source? It matters to ``auto`` alone.
    """
    new = [t for t in head.types if t not in head.kept_rows] if types is None else list(types)
    chosen, started = AUTO[encoder.pretrained, trained] if how == "auto" else how, set[str]()
    if new and chosen in head.row_starts:
        if chosen == "prototypes":
            started = head.start_from_states(labelled_states(encoder, head, _some(sentences, new)), new)
        elif chosen == "names" and len(new) > 1:  # names are compared with each other, so one alone says nothing
            started = head.start_from_names(dict(zip(new, name_vectors(encoder, new), strict=True)))
    head.new_rows = {t: IN_WORDS[chosen if t in started else "random"] for t in new}


def in_words(head: Head) -> str:
    """How new rows of the head started, as part of a sentence; empty if there are none."""
    groups: dict[str, list[str]] = {}
    for label, how in head.new_rows.items():
        groups.setdefault(how, []).append(label)
    return "; ".join(f"rows of {', '.join(types)} started {how}" for how, types in groups.items())


def _some(sentences: Sequence[Sentence], types: Sequence[str]) -> list[Sentence]:
    """The sentences, or, of very many, some of those with one of the types."""
    if len(sentences) <= MOST:
        return list(sentences)
    useful = [s for s in sentences if any(span.label in types for span in s.spans)]
    return useful[:: -(-len(useful) // MOST) or 1]


@torch.no_grad()
def labelled_states(encoder: Encoder, head: Head, sentences: Sequence[Sentence]) -> LabelledStates:
    """Encoder states of the sentences without dropout, with the head's targets, on the head's device."""
    device = next(head.parameters()).device
    for part in by_length(sentences, _BATCH):
        rows = [sentences[i] for i in part]
        states, mask = (x.to(device) for x in _encode(encoder, [s.tokens for s in rows]))
        yield states, mask, pad_targets([head.targets(s) for s in rows], mask.cpu()).to(device)


@torch.no_grad()
def name_vectors(encoder: Encoder, names: Sequence[str]) -> Tensor:
    """Mean encoder state of the words of each name, at unit length, ``[N, H]``."""
    states, mask = _encode(encoder, [_words(name) for name in names])
    means = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(means - means.mean(0), dim=-1)  # what all names share carries no information


def _encode(encoder: Encoder, rows: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
    """States and mask of sentences as words."""
    inputs = on_device(encoder.collate([encoder.prepare(words) for words in rows]), next(encoder.parameters()).device)
    with _evaluating(encoder):
        return encoder(**inputs), inputs["mask"]


@contextmanager
def _evaluating(encoder: Encoder) -> Iterator[None]:
    was_training = encoder.training
    encoder.eval()
    try:
        yield
    finally:
        encoder.train(was_training)


def _words(name: str) -> list[str]:
    """``'Restaurant_Name'`` → ``['restaurant', 'name']``; ``'PER'`` → ``['person']``."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", LONG.get(normalised(name), name))
    return re.findall(r"[^\W_]+", spaced.lower()) or [name]
