"""What a student lost against its teacher, and what it gained in speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from nershift.data.spans import Sentence
from nershift.evaluation.metrics import score
from nershift.methods.base import TARGET
from nershift.methods.teacher_student.teacher import Teacher
from nershift.model import TaggingModel

_TIMED = 200  # sentences
_FIRST = 8  # of them, that are read once before
_BATCH = 32


def compare(
    teacher: Teacher, student: TaggingModel, text: Sequence[Sentence], test: Sequence[Sentence]
) -> dict[str, Any]:
    """Agreement and words per second on some of the text, numbers of weights and, with labels, F1 of the teacher.

    Both predict entities alone, in batches of 32, on the device that they are on.
    """
    chosen = [s for s in text[:: -(-len(text) // _TIMED)] if len(s)]

    def taught(sentences: Sequence[Sentence]) -> list[Sentence]:
        return teacher.label(sentences, None, batch_size=_BATCH).sentences

    def learned(sentences: Sequence[Sentence]) -> list[Sentence]:
        return student.predict(TARGET, sentences, _BATCH)

    theirs, teacher_speed = _timed(taught, chosen)
    ours, student_speed = _timed(learned, chosen)
    measured: dict[str, Any] = {
        "sentences": len(chosen),
        "agreement": score(theirs, ours).f1,
        "teacher_words_per_second": teacher_speed,
        "student_words_per_second": student_speed,
        "teacher_weights": sum(_size(model) for model in teacher.models),
        "student_weights": _size(student),
    }
    return measured | ({"teacher_test_f1": score(test, taught(test)).f1} if test else {})


def in_words(measured: dict[str, Any], f1: float | None) -> str:
    """The comparison in two or three sentences; ``f1``: of the student on test."""
    slow, quick = measured["teacher_words_per_second"], measured["student_words_per_second"]
    said = (
        f"Student and teacher agree on {measured['sentences']} sentences of text with F1 "
        f"{100 * measured['agreement']:.2f}. The teacher reads {slow:,} words/s here, the student {quick:,}: "
        f"{quick / slow:.1f} times as many."
    )
    if f1 is None or "teacher_test_f1" not in measured:
        return said
    theirs = measured["teacher_test_f1"]
    return f"{said} On test the teacher has F1 {100 * theirs:.2f}, the student {100 * f1:.2f}."


def _timed(
    tag: Callable[[Sequence[Sentence]], list[Sentence]], sentences: Sequence[Sentence]
) -> tuple[list[Sentence], int]:
    tag(sentences[:_FIRST])
    began = time.perf_counter()
    tagged = tag(sentences)
    return tagged, round(sum(map(len, sentences)) / (time.perf_counter() - began))


def _size(model: TaggingModel) -> int:
    return sum(p.numel() for p in model.parameters())
