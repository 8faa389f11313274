"""What a run was asked for, and what its method may see of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from nershift.config import Config, TrainConfig, build, to_dict
from nershift.data.apart import Without, fingerprints, without
from nershift.data.corpus import Corpus, subset
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.methods import METHODS
from nershift.methods.base import Method, Setup
from nershift.training.budget import batch_size

Selection = Literal["auto", "dev", "held_out", "last"]
HELD_OUT = 0.2  # share of the labels that selects the weights with ``selection: held_out``


@dataclass(frozen=True)
class Request:
    """What a run was asked for."""

    method: str
    config: Config
    sources: Sequence[Corpus]
    target: Corpus | None = None
    raw: Mapping[str, Sequence[Sentence]] = field(default_factory=dict)
    shots: int | None = None
    ratio: float | None = None
    start: Path | None = None  # a folder to start from

    @cached_property
    def setup(self) -> Setup:
        target, types, rest = self.target, tuple[str, ...](), list[Sentence]()
        selection = self._selection()
        if target is not None:
            labelled = [s for name in ("train", "dev") for s in target.splits.get(name, ())]
            types = tuple(sorted({*target.declared, *(span.label for s in labelled for span in s.spans)}))
            if self.ratio is not None or (self.shots is not None and (self.shots or "train" in target.splits)):
                few = subset(target.train, shots=self.shots, ratio=self.ratio, seed=self.config.seed)
                known = {id(s) for s in few}
                rest = [s.with_spans(()) for s in target.train if id(s) not in known]
                target = target.with_splits(train=few)
            target = selected_on(target, selection)
        pooled = METHODS[self.method].pools_sources
        config = replace(with_batch_sizes(self.config, target, self.sources, pooled), selection=selection)
        options: Any = build(METHODS[self.method].Options, self.config.options, "config.options")
        scored, left_out = self._scored, dict[str, int]()

        def unseen(name: str, text: Sequence[Sentence]) -> Sequence[Sentence]:
            kept = without(text, scored)
            if isinstance(kept, Without):
                left_out[name] = len(kept.removed)
            return kept

        def with_unseen(corpus: Corpus) -> Corpus:
            raw = corpus.splits.get("raw")
            return corpus.with_splits(raw=unseen(corpus.name, raw)) if raw else corpus

        return Setup(
            config,
            options,
            with_unseen(target) if target is not None else None,
            types,
            tuple(map(with_unseen, self.sources)),
            {name: unseen(name, text) for name, text in self.raw.items()},
            pretrained=self.start is not None,
            unlabelled=unseen("the other training sentences", rest),
            scored=scored,
            left_out=left_out,
        )

    @property
    def _scored(self) -> frozenset[str]:
        """What no unlabelled text may have: the target's dev and test sentences."""
        splits = self.target.splits if self.target is not None else {}
        return fingerprints(s for name in ("dev", "test") for s in splits.get(name, ()))

    def _selection(self) -> Selection:
        """What chooses the weights; ``auto`` as the few labels of a real target would have it."""
        asked, dev = self.config.selection, self.target is not None and bool(self.target.splits.get("dev"))
        if asked == "auto":
            return "last" if self.shots is not None or self.ratio is not None or not dev else "dev"
        if asked == "dev" and self.target is not None and not dev:
            raise SetupError(
                f"target '{self.target.name}' has no dev split to select on",
                place="config.selection",
                expected="a dev split",
                fix="--hold-out 0.1, --set selection=held_out, or --set selection=last",
            )
        return asked

    @property
    def unused_dev(self) -> tuple[Sentence, ...]:
        """A dev split that this run does not learn from in any way, so that it is a second test split."""
        return self.target.splits.get("dev", ()) if self.target and self.setup.config.selection != "dev" else ()

    def build_method(self) -> Method:
        """The method on its data; a set-up that cannot work is refused here."""
        method = METHODS[self.method](self.setup)
        method.check()
        return method

    def identity(self) -> dict[str, Any]:
        """Everything that decides the result: written as config.yaml, and compared before resuming."""
        target, start = self.setup.target, None if self.start is None else str(self.start)
        data: dict[str, Any] = {"sources": {c.name: c.digest()[:16] for c in self.sources}}
        if target is not None:
            data |= {"target": target.name, "target_digest": target.digest()[:16]}
        data |= {"shots": self.shots, "ratio": self.ratio, "start": start}
        data["raw"] = {name: _raw_digest(rows)[:16] for name, rows in self.raw.items()}
        return to_dict(self.setup.config) | {"data": data}


def selected_on(target: Corpus, selection: Selection) -> Corpus:
    """The target as a method may see it: its dev split is what selects the weights."""
    if selection == "dev":
        return target
    hidden = replace(target, splits={name: s for name, s in target.splits.items() if name != "dev"})
    return hidden.hold_out(HELD_OUT) if selection == "held_out" else hidden


def with_batch_sizes(config: Config, target: Corpus | None, sources: Sequence[Corpus], pooled: bool = False) -> Config:
    """The config with a size for every batch that was left to the amount of data.

    Args:
        pooled: the stage on the target learns from the sources' sentences as well.
    """
    own, others = (
        sum(len(c.splits.get("train", ())) for c in corpora) for corpora in ([target] if target else [], sources)
    )
    learned = own + others if pooled else own
    return replace(config, train=_with_size(config.train, learned), pretrain=_with_size(config.pretrain, others))


def _with_size(stage: TrainConfig, sentences: int) -> TrainConfig:
    return stage if stage.batch_size else replace(stage, batch_size=batch_size(sentences))


def _raw_digest(rows: Sequence[Sentence]) -> str:
    return rows.digest() if isinstance(rows, RawText) else Corpus("", {"raw": tuple(rows)}).digest()
