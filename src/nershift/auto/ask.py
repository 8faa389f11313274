"""What a fit was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nershift.data.corpus import Corpus, subset
from nershift.data.spans import Sentence


@dataclass(frozen=True)
class Ask:
    """What a fit was asked for: everything that decides its result, but for the time."""

    target: Corpus
    sources: tuple[Corpus, ...]
    raw: Mapping[str, Sequence[Sentence]]
    encoder: str
    seed: int
    same: Mapping[str, str]
    one_model: bool
    download: bool
    device: str
    start: str = ""  # folder of a tagger to go on with
    without: tuple[str, ...] = ()
    recipes: tuple[str, ...] | None = None
    amount: Mapping[str, Any] = field(default_factory=dict)  # shots or ratio, as the command would have it
    places: Mapping[str, str] = field(default_factory=dict)  # where corpora came from, by name


def ask_for(
    target: Corpus,
    sources: Sequence[Corpus],
    raw: Mapping[str, Sequence[Sentence]] | None,
    encoder: str,
    seed: int,
    same: Mapping[str, str] | None,
    one_model: bool,
    download: bool,
    device: str,
    shots: int | None,
    ratio: float | None,
    start: str | Path | None,
    more: Mapping[str, Any],
) -> Ask:
    unknown = set(more) - {"without", "recipes", "places"}
    if unknown:
        raise TypeError(f"fit() got an unexpected keyword argument '{sorted(unknown)[0]}'")
    amount = {name: value for name, value in (("shots", shots), ("ratio", ratio)) if value is not None}
    if amount and (shots != 0 or "train" in target.splits):
        labelled = {
            t for name in ("train", "dev") for s in target.splits.get(name, ()) for t in (x.label for x in s.spans)
        }
        few = subset(target.train, shots=shots, ratio=ratio, seed=seed)
        rest = {name: split for name, split in target.splits.items() if name != "dev"}
        target = replace(
            target, splits={**rest, "train": tuple(few)}, declared=tuple(sorted({*target.declared, *labelled}))
        )
    recipes = more.get("recipes")
    return Ask(
        target,
        tuple(sources),
        dict(raw or {}),
        encoder,
        seed,
        dict(same or {}),
        one_model,
        download,
        _device(device),
        "" if start is None else str(Path(start).resolve()),
        tuple(more.get("without", ())),
        None if recipes is None else tuple(recipes),
        amount,
        dict(more.get("places", {})),
    )


def _device(asked: str) -> str:
    import torch

    if asked != "auto":
        return asked
    return "cuda" if torch.cuda.is_available() else "cpu"


def identity(ask: Ask) -> dict[str, Any]:
    """What makes two fits the same: an interrupted one goes on only with these."""
    return {
        "target": ask.target.name,
        "target_digest": ask.target.digest()[:16],
        "sources": {c.name: c.digest()[:16] for c in ask.sources},
        "raw": {name: len(text) for name, text in ask.raw.items()},
        "encoder": ask.encoder,
        "seed": ask.seed,
        "same": dict(ask.same),
        "one_model": ask.one_model,
        "device": ask.device,
        "start": ask.start,
        "amount": dict(ask.amount),
        "recipes": list(ask.recipes) if ask.recipes is not None else None,
        "without": list(ask.without),
    }
