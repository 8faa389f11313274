"""What a worker of `nershift fit` does: train a recipe on part of the labels, or learn from the sources for several."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from nershift.data.corpus import Corpus
from nershift.data.formats import detect_format, read_corpus, read_sentences
from nershift.data.raw import RawText
from nershift.data.spans import Sentence


@dataclass(frozen=True)
class Job:
    """A piece of work as plain values, so that it can be sent to another process or machine.

    Attributes:
        name: of the job, which is also that of its folder in ``work``.
        does: learn from the sources alone; train for the target; or time a few updates.
        target: the target's name; ``types`` those it has.
        labels: file of its labelled sentences.
        held: numbers of labelled sentences that are not learned from but judge the result.
        dev: file of a dev split, which selects the weights.
        judge: file of other sentences that judge the result.
        start: the name of a job that learned from the sources.
        raw: files of unlabelled text by domain.
        languages: of target and sources, by name.
    """

    name: str
    does: Literal["pretrain", "train", "probe"]
    method: str
    config: Mapping[str, Any]
    seed: int
    work: str
    target: str = "target"
    types: tuple[str, ...] = ()
    labels: str = ""
    held: tuple[int, ...] = ()
    dev: str = ""
    judge: str = ""
    sources: tuple[str, ...] = ()
    start: str = ""
    raw: Mapping[str, str] = field(default_factory=dict)
    languages: Mapping[str, str] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        return Path(self.work, self.name)

    @property
    def finished(self) -> bool:
        """Is its work done, so that nothing of it has to be repeated?"""
        return (self.folder / ("model.json" if self.does == "pretrain" else "metrics.json")).exists()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Job:
        return cls(**{**row, **{name: tuple(row[name]) for name in ("types", "held", "sources")}})


def run(job: Job) -> dict[str, Any]:
    """Do it; what comes back is small, results lie in the job's folder.

    An unfinished job goes on from its last checkpoint.
    """
    began = time.monotonic()
    told: dict[str, Any] = {}
    if job.does == "probe":
        told["per_update"] = probe_on(job, _target(job))
    elif job.does == "pretrain":
        from nershift.run import pretrain

        pretrain(job.method, _sources(job), out=job.folder, raw=_raw(job), config=job.config, seed=job.seed, quiet=True)
    else:
        _train(job)
    return {**told, "seconds": time.monotonic() - began}


def _train(job: Job) -> None:
    from nershift.run import transfer

    start = Path(job.work, job.start) if job.start else None
    transfer(
        job.method,
        _target(job),
        () if start else _sources(job),
        out=job.folder,
        raw=_raw(job),
        start=start,
        config=job.config,
        seed=job.seed,
        quiet=True,
        report=False,
    )


def _target(job: Job) -> Corpus:
    """The labels to learn from. What judges the result is the test split, which training does not see."""
    whole, held = _sentences(job.labels), set(job.held)
    splits = {
        "train": tuple(s for i, s in enumerate(whole) if i not in held),
        "dev": _sentences(job.dev),
        "test": tuple(whole[i] for i in job.held) or _sentences(job.judge),
    }
    language = job.languages.get(job.target, "")
    return Corpus(job.target, {k: v for k, v in splits.items() if v}, language=language, declared=job.types)


def _sources(job: Job) -> list[Corpus]:
    return [_corpus(path, job.languages.get(Path(path).name, "")) for path in job.sources]


@lru_cache(maxsize=32)
def _corpus(path: str, language: str) -> Corpus:
    return read_corpus(path, name=Path(path).name, language=language)


@lru_cache(maxsize=16)
def _sentences(path: str) -> tuple[Sentence, ...]:
    return tuple(read_sentences(path)) if path else ()


def _raw(job: Job) -> dict[str, Sequence[Sentence]]:
    return {name: _text(path) for name, path in job.raw.items()}


@lru_cache(maxsize=8)
def _text(path: str) -> Sequence[Sentence]:
    format = detect_format(path)
    if format in ("raw", "text"):
        return RawText(path, "raw" if format == "raw" else "text")
    return tuple(s.with_spans(()) for s in read_sentences(path))


_WARM, _TIMED = 3, 12  # updates


def probe_on(job: Job, target: Corpus) -> float:
    """Seconds that an update of plain training takes on this machine, with this text and encoder."""
    import torch

    from nershift.methods.base import TARGET
    from nershift.run_request import Request
    from nershift.run_settings import resolve
    from nershift.training.optim import make_optimizer

    request = Request(job.method, resolve(job.method, job.config, job.seed), (), target)
    stage = request.build_method().target_stage(None)
    stage.model.to("cuda" if request.config.device.startswith("cuda") else "cpu").train()
    sampler, optimizer = stage.samplers[TARGET], make_optimizer(stage.config, stage.model)
    on_cpu = stage.model.device.type == "cpu"
    # What else the machine does now is not its speed, so on a CPU the time that this process gets is what counts.
    clock = time.process_time if on_cpu else time.perf_counter
    for k in range(_WARM + _TIMED):
        if k == _WARM:
            began = clock()
        stage.model(sampler.batch(k)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return (clock() - began) / _TIMED / (torch.get_num_threads() if on_cpu else 1)
