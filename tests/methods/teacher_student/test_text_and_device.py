"""Which sentences of a text are labelled, and where the teachers are when they label it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import ConfigError
from nershift.methods.teacher_student.teacher import Teacher
from nershift.methods.teacher_student.text_sampler import TextSampler
from nershift.run import transfer

QUICK: dict[str, Any] = {"train": {"epochs": 0, "updates": 4}, "options": {"batch_size": 4, "teacher_updates": 4}}


@pytest.mark.parametrize("pick", ["spread", "similar"])
def test_the_sentences_to_label(
    pick: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, seen = homogeneous[-1], list[Sentence]()
    like = [s.with_spans(()) for s in target.train[:5]]
    other = [Sentence.of([f"x{i}", f"y{i}", "z"]) for i in range(40)]
    made = TextSampler.__init__

    def noted(self: TextSampler, model: Any, key: str, sentences: list[Sentence], *more: Any) -> None:
        seen.extend(sentences)
        made(self, model, key, sentences, *more)

    monkeypatch.setattr(TextSampler, "__init__", noted)
    config = merge(merge(tiny, QUICK), {"options": {"sentences": 5, "pick": pick}})
    transfer(
        "teacher_student", target, out=tmp_path / "run", raw={"target": [*other, *like]}, config=config, quiet=True
    )
    assert ({s.tokens for s in seen} == {s.tokens for s in like}) == (pick == "similar")
    assert len(seen) <= 5


def test_nothing_is_like_labels_that_are_not_there(
    homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = homogeneous
    text = [s.with_spans(()) for s in target.train]
    config = merge(merge(tiny, QUICK), {"options": {"pick": "similar"}})
    with pytest.raises(ConfigError, match=r"options\.pick"):
        transfer(
            "teacher_student", target.with_splits(train=()), sources, out=tmp_path / "run", raw={"target": text},
            config=config, quiet=True,
        )  # fmt: skip


def test_teachers_are_brought_to_the_student_before_they_label(
    homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, calls = homogeneous[-1], list[str]()
    brought, label = Teacher.to, Teacher.label

    def to(self: Teacher, device: torch.device) -> Teacher:
        calls.append(f"to {device}")
        return brought(self, device)

    def labelled(self: Teacher, *args: Any, **more: Any) -> Any:
        calls.append("label")
        return label(self, *args, **more)

    monkeypatch.setattr(Teacher, "to", to)
    monkeypatch.setattr(Teacher, "label", labelled)
    text = [s.with_spans(()) for s in target.train]
    config = merge(tiny, QUICK)
    transfer("teacher_student", target, out=tmp_path / "run", raw={"target": text}, config=config, quiet=True)
    assert calls[:2] == ["to cpu", "label"]
