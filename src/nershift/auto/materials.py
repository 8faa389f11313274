"""The corpora of a fit as files in its folder, and the jobs that are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nershift.auto.jobs import Job
from nershift.auto.recipe import Recipe
from nershift.config import merge, to_dict
from nershift.data.corpus import Corpus
from nershift.data.folds import folds
from nershift.data.formats import write_corpus, write_sentences
from nershift.data.labels import LabelMapping
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.methods import METHODS
from nershift.methods.base import Method
from nershift.model_store import load_model

TARGET = "target"
PROBE, FINAL = "probe-", "-final"  # how the names of such jobs begin and end
_JUDGED = 500  # sentences of a source that plays the target


@dataclass(frozen=True)
class Materials:
    """Everything that jobs read, on disk.

    Attributes:
        target: without its test split, which no job may see.
        held: labelled sentences of each trial that are held out; empty where a dev split judges.
        players: for each trial without labels, the source that plays the target.
    """

    folder: Path
    target: Corpus
    sources: tuple[Corpus, ...]
    raw: Mapping[str, str]
    device: str
    seed: int
    same: Mapping[str, str]
    encoder: str | None
    tagger: str = ""
    of_tagger: Mapping[str, Any] = field(default_factory=dict)  # settings of its model
    held: tuple[tuple[int, ...], ...] = ()
    players: tuple[str, ...] = ()

    @classmethod
    def write(
        cls,
        folder: Path,
        target: Corpus,
        sources: Sequence[Corpus],
        raw: Mapping[str, Sequence[Sentence]],
        *,
        trials: int,
        device: str,
        seed: int,
        same: Mapping[str, str],
        encoder: str | None,
        tagger: str = "",
    ) -> Materials:
        """Write what jobs need to ``folder``.

        Args:
            target: with the train split and the dev split that may be used.
        """
        data = folder / "data"
        labelled, dev = target.splits.get("train", ()), target.splits.get("dev", ())
        if not labelled:
            sources, target = with_common_types(sources, target, same)
            same = {}
        held = tuple(tuple(sorted(part)) for part in folds(labelled, trials, seed)) if labelled and not dev else ()
        players = _players(sources, target) if not labelled and trials else ()
        for name, split in (("labels", labelled), ("dev", dev)):
            if split:
                write_sentences(data / f"{name}.jsonl", split)
        for source in sources:
            write_corpus(data / "sources" / source.name, _learned(source), "jsonl")
        for player in players:
            _write_player(data, next(c for c in sources if c.name == player))
        texts = {name: _written(data, name, text) for name, text in raw.items()}
        known = _settings_of(tagger) if tagger else {}
        return cls(folder, target, tuple(sources), texts, device, seed, same, encoder, tagger, known, held, players)

    def trial(self, recipe: Recipe, number: int, seed: int | None = None) -> list[Job]:
        """The jobs of a recipe in one trial: what it starts from, if that can be shared, and the trial itself."""
        name = f"{_named(recipe, seed)}-trial-{number}"
        if self.players:
            player = self.players[number]
            others = tuple(c.name for c in self.sources if c.name != player)
            data = self.folder / "data"
            raw = {TARGET: str(data / f"{player}-text.jsonl")} if self.raw else {}
            return self._jobs(recipe, name, seed, others, judge=str(data / f"{player}-judge.jsonl"), raw=raw)
        if self.held:
            return self._jobs(recipe, name, seed, held=self.held[number])
        dev = self._file("dev")
        return self._jobs(recipe, name, seed, dev=dev, judge=dev)

    def final(self, recipe: Recipe, seed: int | None = None) -> list[Job]:
        """The jobs that train a recipe on all it may use."""
        return self._jobs(recipe, f"{_named(recipe, seed)}{FINAL}", seed, dev=self._file("dev"))

    def probe(self, recipe: Recipe) -> Job:
        """A few updates, timed."""
        return replace(self._job(recipe, f"{PROBE}{recipe.name}", self.seed, "probe"), sources=())

    def settings(self, recipe: Recipe) -> dict[str, Any]:
        """Those of a run of the recipe."""
        values = recipe.settings_for(self.encoder)
        if "tagger" in recipe.needs:
            values = merge(self.of_tagger, values)
        values["device"] = self.device
        if self.same:
            values["head"] = {**values.get("head", {}), "same": dict(self.same)}
        return values

    def _jobs(
        self, recipe: Recipe, name: str, seed: int | None, sources: tuple[str, ...] | None = None, **more: Any
    ) -> list[Job]:
        own = replace(self._job(recipe, name, seed or self.seed, "train", sources), **more)
        if "tagger" in recipe.needs:
            return [replace(own, start=self.tagger)]
        cls = METHODS[recipe.method]
        if cls.pretrain is Method.pretrain or not own.sources or cls.pools_sources or cls.keeps_sources:
            return [own]  # nothing is learned from the sources alone, or they are needed again later
        first = self._pretraining(recipe, sources)
        return [first, replace(own, start=first.name)]

    def _pretraining(self, recipe: Recipe, sources: tuple[str, ...] | None) -> Job:
        """What is learned from the sources alone: once for all trials and seeds."""
        without = f"-without-{'-'.join(c.name for c in self.sources if c.name not in sources)}" if sources else ""
        job = self._job(recipe, f"{recipe.name}-sources{without}", self.seed, "pretrain", sources)
        return replace(job, labels="", config={k: v for k, v in job.config.items() if k != "train"})

    def _job(self, recipe: Recipe, name: str, seed: int, does: Any, sources: tuple[str, ...] | None = None) -> Job:
        used = [c for c in self.sources if sources is None or c.name in sources]
        known = {c.name: c.language for c in (self.target, *used)}
        needs_text = "raw text" in recipe.needs
        return Job(
            name,
            does,
            recipe.method,
            self.settings(recipe),
            seed,
            str(self.folder / "jobs"),
            target=self.target.name,
            types=self.target.types if self.target.splits.get("train") else (),
            labels=self._file("labels"),
            sources=tuple(str(self.folder / "data" / "sources" / c.name) for c in used) if _uses(recipe) else (),
            raw=self.raw if needs_text else {},
            languages={name: language for name, language in known.items() if language},
        )

    def _file(self, name: str) -> str:
        path = self.folder / "data" / f"{name}.jsonl"
        return str(path) if path.exists() else ""


def _uses(recipe: Recipe) -> bool:
    return "sources" in recipe.needs


def _settings_of(tagger: str) -> dict[str, Any]:
    """The settings that a run needs to go on with a tagger."""
    model, _ = load_model(Path(tagger))
    head = model.head(TARGET).describe()
    return {"encoder": to_dict(model.encoder.config), "head": {"kind": head["kind"]}}


def _named(recipe: Recipe, seed: int | None) -> str:
    return recipe.name if seed is None else f"{recipe.name}@{seed}"


def _learned(source: Corpus) -> Corpus:
    return replace(source, splits={k: v for k, v in source.splits.items() if k in ("train", "dev")})


def with_common_types(
    sources: Sequence[Corpus], target: Corpus, same: Mapping[str, str]
) -> tuple[list[Corpus], Corpus]:
    """For a target without labels: sources with one set of types, under the target's names where it has names.

    Types that some source lacks are removed, since its text would teach that they do not occur.
    """
    able = [c for c in sources if c.splits.get("train")]
    wanted = target.types or (able[0].types if able else ())
    maps = [LabelMapping.between(wanted, c.types, same) for c in able]
    useful = [(c, m) for c, m in zip(able, maps, strict=True) if m]
    common = [t for t in wanted if useful and all(t in m for _, m in useful)]
    renamed = [c.mapped({**dict.fromkeys(c.types, "O"), **{m[t]: t for t in common}}) for c, m in useful]
    return renamed, replace(target, declared=tuple(common))


def _players(sources: Sequence[Corpus], target: Corpus) -> tuple[str, ...]:
    return tuple(c.name for c in sources) if len(sources) > 1 else ()


def _write_player(data: Path, source: Corpus) -> None:
    judged = (source.splits.get("dev") or source.splits["train"])[:_JUDGED]
    write_sentences(data / f"{source.name}-judge.jsonl", judged)
    seen = {s.tokens for s in judged}
    write_sentences(
        data / f"{source.name}-text.jsonl", [s.with_spans(()) for s in source.train if s.tokens not in seen]
    )


def _written(data: Path, name: str, text: Sequence[Sentence]) -> str:
    """The file of a text: as it is where it was streamed from one."""
    if isinstance(text, RawText):
        return str(Path(text.path).resolve())
    path = data / f"raw-{name}.jsonl"
    write_sentences(path, [s.with_spans(()) for s in text])
    return str(path)
