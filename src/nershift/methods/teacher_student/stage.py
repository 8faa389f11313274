"""One stage in rounds: label the text, learn from it beside gold labels, let the student's average label it again."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import torch
from torch import Tensor

from nershift.config import TrainConfig
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import score
from nershift.methods.base import TARGET
from nershift.methods.teacher_student.options import TeacherStudentOptions
from nershift.methods.teacher_student.quotas import choose
from nershift.methods.teacher_student.teacher import Labelled, Teacher
from nershift.methods.teacher_student.text_sampler import TextSampler
from nershift.model import Batch, TaggingModel
from nershift.training.loop import restore, trainable
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator
from nershift.training.stage import TrainingStage

log = logging.getLogger(__name__)
TEXT = "text"  # names the sampler of the text
_EVERY = 10  # updates from one sample of the moving average to the next
_HELD_OUT = 20  # one sentence in so many is held out of the text …
_MOST_HELD_OUT = 300  # … up to this number, to compare student and teacher on


class TeacherStudentStage(TrainingStage):
    """The rounds have equally many updates.

    A checkpoint holds the moving average and the weights that labelled the text of the present round. When a run is
    resumed they label it again, which gives the same labels.

    Args:
        text: the whole text; some of it is held out.
        gold: samplers of gold labels, which take turns.
        teacher: of the first round.
    """

    cuda_graph_safe = False  # batches carry soft targets
    reported: ClassVar[tuple[str, ...]] = ("agreement", "text_sentences", "text_filled", "gold_filled", "rounds")

    def __init__(
        self,
        model: TaggingModel,
        config: TrainConfig,
        text: TextSampler,
        gold: Sequence[BatchSampler],
        seed: int,
        dev: Sequence[tuple[str, Sequence[Sentence]]],
        teacher: Teacher,
        options: TeacherStudentOptions,
    ) -> None:
        self.text, self.gold, self.teacher, self.options = text, list(gold), teacher, options
        samplers = {TEXT: text} | {f"gold {i}": sampler for i, sampler in enumerate(self.gold)}
        super().__init__("train", model, config, samplers, seed, dev, steps_per_epoch=text.per_epoch)
        self.round = 0  # of the labels that the text has
        self.filled = 0.0  # share of the text's sentences with entities, by these labels
        self.average, self.labeller = dict[str, Tensor](), dict[str, Tensor]()
        every = max(_HELD_OUT, -(-len(text.sentences) // _MOST_HELD_OUT))
        self.held = range(every // 2, len(text.sentences), every)  # places in the text
        self._agreed = list[Sentence]()  # what the teacher says of the held-out sentences
        if options.stop == "agreement":
            self.score_name = "agreement"
        share = options.gold_share if self.gold else 0.0
        self._gold_before = lambda step: int(share * step)  # how many of so many steps learn from gold labels

    @property
    def sentences_per_update(self) -> int:
        return self.config.accumulate * self.text.batch_size

    # -- rounds ------------------------------------------------------------------------------------------

    def first_step(self, round: int) -> int:
        """The first step of a round, counted from 1, by the length that the settings give."""
        return (round - 1) * (self.budget.total * self.config.accumulate) // self.options.rounds

    def draw(self, step: int, rank: int, world: int) -> dict[str, Batch]:
        self._follow(step)
        golden = self._gold_before(step)
        if self._gold_before(step + 1) > golden:
            turn, k = golden % len(self.gold), golden // len(self.gold)
            return {f"gold {turn}": self.gold[turn].batch(k, rank, world)}
        begun = self.first_step(self.round)
        k = (step - golden) - (begun - self._gold_before(begun))
        return {TEXT: self.text.batch(k, rank, world)}

    def _follow(self, step: int) -> None:
        """Label the text if a round begins, or if it has no labels since the run was resumed; average the weights."""
        begun = max(r for r in range(1, self.options.rounds + 1) if self.first_step(r) <= step)
        if begun > self.round:
            if self.round:
                self.labeller = {name: p.clone() for name, p in self.average.items()}
            self.round = begun
            if begun < self.options.rounds:
                self.average = {name: p.clone() for name, p in trainable(self.model).items()}
            self._label()
        elif not self.text.chosen:
            self._label()
        if self.round < self.options.rounds and step % (_EVERY * self.config.accumulate) == 0:
            for name, weights in trainable(self.model).items():
                self.average[name].lerp_(weights, 1 - self.options.decay**_EVERY)

    def _label(self) -> None:
        sentences, options = self.text.sentences, self.options
        if self.labeller:
            with weights(self.model, self.labeller):
                labelled = self._ask(Teacher([self.model]))
        else:
            labelled = self._ask(self.teacher)
        held = set(self.held)
        free = [i for i in range(len(sentences)) if i not in held]
        rng = generator(self.seed, "text without entities", self.round)
        tagged = [labelled.sentences[i] for i in free]
        chosen = [free[i] for i in choose(tagged, options.keep, options.quotas, options.empty_share, rng)]
        self.text.take(self.round, chosen or free, labelled)
        self._agreed = [labelled.sentences[i] for i in self.held]
        self._scored = {}
        self.filled = _filled(labelled.sentences)
        log.info(
            "round %d: the teacher found entities in %.0f %% of %s sentences; %s are learned from",
            self.round,
            100 * self.filled,
            f"{len(sentences):,}",
            f"{len(self.text.chosen):,}",
        )

    def _ask(self, teacher: Teacher) -> Labelled:
        student = self.model.head(TARGET) if self.options.targets == "soft" else None
        teacher.to(self.model.device)  # folders are read before the run is on its device
        return teacher.label(self.text.sentences, student, self.options.temperature, self.config.eval_batch_size)

    # -- selection ---------------------------------------------------------------------------------------

    def validate(self) -> float | None:
        return self.agreement() if self.options.stop == "agreement" else super().validate()

    def agreement(self) -> float | None:
        """F1 of the student on held-out text, with what the present teacher says of it as gold."""
        if not self._agreed:
            return None
        at = (TARGET, id(self._agreed))
        if at not in self._scored:
            self._scored[at] = list(self.model.batches(TARGET, self._agreed, self.config.eval_batch_size))
        return score(self._agreed, self.model.predict_batches(self._agreed, self._scored[at])).f1

    def score_monitors(self) -> dict[str, float]:
        measured = super().score_monitors()
        measured |= {"text_sentences": len(self.text.chosen), "text_filled": self.filled, "rounds": self.round}
        if self.gold:
            measured["gold_filled"] = _filled([s for sampler in self.gold for s in sampler.sentences])
        agreed = self.agreement()
        return measured if agreed is None else measured | {"agreement": agreed}

    # -- resuming ----------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        kept = {"round": torch.tensor(self.round)}
        kept |= {f"average/{name}": p for name, p in self.average.items()}
        return kept | {f"labeller/{name}": p for name, p in self.labeller.items()}

    def restore_state(self, state: Mapping[str, Tensor]) -> None:
        self.round = int(state["round"])
        for part, place in (("average/", self.average), ("labeller/", self.labeller)):
            place.update({k.removeprefix(part): v for k, v in state.items() if k.startswith(part)})


def _filled(sentences: Sequence[Sentence]) -> float:
    """The share of the sentences with entities."""
    return sum(bool(s.spans) for s in sentences) / len(sentences)


@contextmanager
def weights(model: TaggingModel, others: Mapping[str, Tensor]) -> Iterator[None]:
    """The model with other weights."""
    own = {name: p.clone() for name, p in trainable(model).items()}
    restore(model, others, "the average of the student")
    try:
        yield
    finally:
        restore(model, own, "the student")
