"""What labels a text: one model, or several whose probabilities are averaged."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.evaluation.vote import vote
from nershift.heads.base import Head, with_scores
from nershift.heads.soft import SoftRow, mean_row
from nershift.methods.base import TARGET
from nershift.model import TaggingModel
from nershift.model_store import load_model

log = logging.getLogger(__name__)
_EVERY = 20.0  # seconds between lines of progress


@dataclass(frozen=True)
class Labelled:
    """A text as a teacher reads it: entities with their probabilities, and soft targets if they were asked for."""

    sentences: list[Sentence]
    soft: list[SoftRow] | None


class Teacher:
    """Models with the head ``key``, which know the same types."""

    def __init__(self, models: Sequence[TaggingModel], key: str = TARGET) -> None:
        self.models, self.key = list(models), key

    @classmethod
    def load(cls, folders: Sequence[str]) -> Teacher:
        """The taggers of finished runs."""
        models = [load_model(Path(folder))[0] for folder in folders]
        for folder, model in zip(folders, models, strict=True):
            keys, types = [key for key, _ in model.named_heads()], models[0].named_heads()[0][1].predicted_types
            if TARGET not in keys:
                raise SetupError(
                    "was not trained for a target",
                    place=f"options.teacher: {folder}",
                    expected="the folder of a finished run",
                    fix="adapt it first: nershift adapt --from … --target CORPUS --out DIR",
                )
            if set(model.head(TARGET).predicted_types) != set(types):
                raise SetupError(
                    f"predicts {', '.join(model.head(TARGET).predicted_types)}, another teacher {', '.join(types)}",
                    place=f"options.teacher: {folder}",
                    expected="teachers of the same types",
                )
        return cls(models)

    @property
    def heads(self) -> list[Head]:
        return [model.head(self.key) for model in self.models]

    @property
    def types(self) -> tuple[str, ...]:
        return self.heads[0].predicted_types

    def teaches(self, student: Head) -> str:
        """Why the student's head cannot learn from the probabilities of these teachers; empty if it can."""
        forms = {head.gives_soft for head in self.heads}
        if len(forms) > 1 or not forms <= set(student.takes_soft):
            kinds = " and ".join(dict.fromkeys(head.kind for head in self.heads))
            return f"a head of kind '{student.kind}' cannot learn from the probabilities of {kinds}"
        return ""

    def to(self, device: torch.device) -> Teacher:
        for model in self.models:
            model.to(device)
        return self

    def restrict(self, types: Sequence[str]) -> None:
        """Say nothing of other types."""
        for head in self.heads:
            head.restrict(types)

    def label(
        self, sentences: Sequence[Sentence], student: Head | None, temperature: float = 1.0, batch_size: int = 128
    ) -> Labelled:
        """What the teachers say; for ``student``, also as soft targets.

        The entities of several teachers are those that more than half of them find.
        """
        read = [self._label_by(model, sentences, student, temperature, batch_size) for model in self.models]
        if len(read) == 1:
            return read[0]
        soft = None
        if student is not None:
            soft = [mean_row(rows) for rows in zip(*(one.soft or [] for one in read), strict=True)]
        return Labelled(vote([one.sentences for one in read]), soft)

    @torch.no_grad()
    def _label_by(
        self, model: TaggingModel, sentences: Sequence[Sentence], student: Head | None, temperature: float, size: int
    ) -> Labelled:
        was_training, head = model.training, model.head(self.key)
        model.eval()
        tagged, soft = [s.with_spans(()) for s in sentences], dict[int, SoftRow]()
        done, told = 0, time.monotonic()
        for part, batch in model.batches(self.key, sentences, size):
            states = model.states(batch)
            spans = head.predict(states, batch.mask)
            scored = with_scores(spans, head.confidences(states, batch.mask, spans))
            for i, row in zip(part, scored, strict=True):
                tagged[i] = sentences[i].with_spans(row)
            if student is not None:
                rows = head.soft_targets(states, batch.mask, student, temperature).rows(batch.mask)
                soft |= dict(zip(part, rows, strict=True))
            done += len(part)
            if time.monotonic() - told > _EVERY:
                log.info("the teacher has labelled %s of %s sentences", f"{done:,}", f"{len(sentences):,}")
                told = time.monotonic()
        model.train(was_training)
        return Labelled(tagged, [soft[i] for i in range(len(sentences))] if student is not None else None)
