"""Distillation: what several taggers or a large one know, in one small tagger, by way of unlabelled text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.model_store import load_model
from nershift.run import transfer
from nershift.run_folder import Run

RECURRENT, TRANSFORMER = "recurrent", "transformer"
# A student starts anew, and text is cheap: it reads all of it several times.
_LENGTH: dict[str, Any] = {"train": {"min_updates": 3000, "passes": 5}}
_TARGET = "target"


def distil(
    teachers: Sequence[str | Path],
    raw: Sequence[Sentence],
    *,
    out: str | Path,
    student: str = RECURRENT,
    target: Corpus | None = None,
    shots: int = 0,
    config: Mapping[str, Any] | None = None,
    seed: int | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    report: bool = True,
) -> Run:
    """Train one tagger on what finished runs say of ``raw``; no gold labels are needed. Writes a run folder.

    The probabilities of several teachers are averaged. The report says what the student lost against them and how much
    faster it is. An interrupted call goes on when it is repeated.

    Args:
        teachers: folders of finished runs for the same types.
        student: ``recurrent``, or ``transformer:NAME`` with a folder or hub name.
        target: a corpus to score teachers and student on. Its labels are learned only as ``shots`` says.
        shots: how many of its labelled training sentences the student learns beside the text.
        config: settings of the method `teacher_student`, nested as in ``config.yaml``.

    Example:
        >>> from nershift import builtin_corpus, distil
        >>> text = [s.with_spans(()) for s in builtin_corpus("news").train]
        >>> few = {"train": {"updates": 5}}
        >>> small = distil(["runs/news-1", "runs/news-2"], text, out="runs/small", config=few, quiet=True)
        >>> small.tagger().types
        ('person', 'place')
    """
    if isinstance(teachers, (str, Path)) or not teachers:
        raise SetupError(
            f"found {teachers!r:.60}",
            place="teachers",
            expected="a list of folders of finished runs",
            fix="--teacher RUN, or teachers=['runs/large']",
        )
    folders = [str(Path(folder).resolve()) for folder in teachers]
    settings = merge(merge(_LENGTH, _student(student)), _head(folders[0]))
    stop = "auto" if shots else "agreement"
    settings = merge(settings, {"options": {"teacher": folders, "stop": stop}})
    scored = target if target is not None else Corpus(Path(out).name)
    return transfer(
        "teacher_student",
        scored if "train" in scored.splits else scored.with_splits(train=()),
        out=out,
        raw={_TARGET: raw},
        shots=shots if scored.splits.get("train") else None,
        config=merge(settings, config or {}),
        seed=seed,
        overwrite=overwrite,
        quiet=quiet,
        report=report,
    )


def _student(asked: str) -> dict[str, Any]:
    kind, _, name = asked.partition(":")
    if kind == RECURRENT and not name:
        return {"encoder": {"kind": RECURRENT}}
    if kind == TRANSFORMER and name:
        return {"encoder": {"kind": TRANSFORMER, "transformer": {"name": name}}}
    raise ConfigError(f"found '{asked}'", place="--student", expected="recurrent | transformer:NAME")


def _head(folder: str) -> dict[str, Any]:
    """A head that can learn the teacher's probabilities; where there is none, the student learns its entities alone."""
    model, _ = load_model(Path(folder))
    head = model.named_heads()[0][1]
    if not (head.gives_soft and head.gives_soft in head.takes_soft):
        return {"options": {"targets": "hard"}}
    if head.gives_soft == "tags":  # of every head that learns these, the quickest, which can be exported
        return {"head": {"kind": "softmax", "scheme": head.describe()["scheme"]}}
    return {"head": {"kind": head.kind, "options": dict(head.describe().get("settings", {}))}}
