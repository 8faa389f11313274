"""Teacher and student as a method: who teaches, who learns, from which text."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from nershift.config import TrainConfig
from nershift.data.labels import LabelSpace
from nershift.data.raw import Joined
from nershift.data.similar import most_similar
from nershift.data.spans import Sentence, in_parts
from nershift.errors import ConfigError, SetupError
from nershift.evaluation.metrics import score
from nershift.heads.base import Head
from nershift.heads.start import start_new_rows
from nershift.heads.tags import TagHead
from nershift.methods.base import TARGET, labels_of, register
from nershift.methods.presets import PRESETS, TWO_STAGE_PRESETS
from nershift.methods.teacher_student.comparison import compare, in_words
from nershift.methods.teacher_student.options import STUDENT_BY_ENCODER, STUDENT_PRESETS, TeacherStudentOptions
from nershift.methods.teacher_student.stage import TeacherStudentStage
from nershift.methods.teacher_student.teacher import Teacher
from nershift.methods.teacher_student.text_sampler import TextSampler
from nershift.methods.texts import TextMethod
from nershift.model import TaggingModel
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

_SEEN = 2  # times that a word must occur in the text to get a vector of its own


@register("teacher_student")
class TeacherStudent(TextMethod):
    """The teacher is a folder, several, or the run's own model: trained on the sources, then on the target's labels.

    The student starts from the own teacher's weights, from a folder (``start``), or anew.
    """

    summary = "a teacher (other runs, or the sources' own model) labels raw text with its probabilities for a student"
    paper = "teacher-student learning (Wu et al., ACL 2020) with a mean teacher (Tarvainen and Valpola, NeurIPS 2017)"
    can_do_without = True
    keeps_sources = True
    presets = STUDENT_PRESETS
    by_encoder = STUDENT_BY_ENCODER
    Options = TeacherStudentOptions
    options: TeacherStudentOptions
    _compared: dict[str, Any] | None = None

    def check(self) -> None:
        super().check()
        options, setup = self.options, self.setup
        if not options.keep:
            raise ConfigError("found 0: nothing to learn from", place="options.keep", expected="more than 0, at most 1")
        if setup.target is None:
            return
        if not options.teacher and not setup.pretrained and not self.labelled:
            self.check_source_head()
        if options.stop == "sources" and not self.source_dev():
            raise SetupError("no source has a dev split", place="options.stop", expected="auto or agreement")
        if len(self.text) < 2:
            raise SetupError(
                "there is no text to label",
                place="--raw",
                expected="--raw target=FILE",
                fix="or --set options.rest_of_train=true, with --shots or --ratio: the target's other sentences",
            )
        if options.pick == "similar" and not self.labelled:
            raise ConfigError(
                "found similar, and the target has no labelled sentences",
                place="options.pick",
                expected="spread",
                fix="--set options.pick=spread, or --shots N",
            )
        if options.teacher:
            self._check_teacher()

    def _check_teacher(self) -> None:
        lacking = [t for t in self._types() if t not in self.folders.types]
        if lacking:
            raise SetupError(
                f"the teacher does not know {', '.join(lacking)}, which the target has",
                place="options.teacher",
                expected=f"types among those of the teacher: {', '.join(self.folders.types)}",
                fix="rename them with a label map, or take a teacher that was trained for this target",
            )

    # -- what is read --------------------------------------------------------------------------------------

    @property
    def uses_sources(self) -> bool:
        return not self.options.teacher

    @property
    def selected_by(self) -> str:
        chosen = {"agreement": "best agreement with the teacher", "sources": "best dev F1 of the sources"}
        return chosen.get(self.options.stop, "")

    @property
    def text(self) -> Sequence[Sentence]:
        """The target's raw text and, if asked, its other training sentences."""
        given = {self._domain_of(name): rows for name, rows in self.setup.raw.items()}.get(TARGET)
        raw = given or self.target.splits.get("raw", ())
        rest = self.setup.unlabelled if self.options.rest_of_train else ()
        return Joined([raw, rest]) if len(raw) and len(rest) else (raw if len(raw) else rest)

    def candidates(self) -> list[Sentence]:
        """The sentences to label: as many as asked; long ones in parts."""
        text, most, count = self.text, self.config.train.max_tokens, self.options.sentences
        places: Sequence[int] = range(0, len(text), -(-len(text) // count))
        if self.options.pick == "similar":
            places = most_similar(text, self.labelled, count)
        chosen = (text[i].with_spans(()) for i in places)
        return [part for s in chosen if len(s) for part in (in_parts(s, most) if most else [s])]

    @cached_property
    def folders(self) -> Teacher:
        """The teachers that the settings name."""
        teacher = Teacher.load(self.options.teacher)
        if types := [t for t in self._types() if t in teacher.types]:
            teacher.restrict(types)
        return teacher

    def _types(self) -> tuple[str, ...]:
        """Types that the target is known to have."""
        return self.target_space.types if self.labelled else self.setup.types

    # -- stages --------------------------------------------------------------------------------------------

    def pretrain(self) -> TrainingStage | None:
        return self.source_stage() if self.setup.sources and self.uses_sources else None

    def teach(self, start: TaggingModel | None) -> TrainingStage | None:
        """The own teacher learns the target's labels as `target_only` would or, after sources, as `finetune`."""
        if self.options.teacher or not self.labelled:
            return None
        stage = self.target_stage(start)
        plain = (PRESETS if start is None else TWO_STAGE_PRESETS).get(self.config.preset, {}).get("train", {})
        config = replace(
            self.config.train,
            updates=self.options.teacher_updates,
            min_updates=TrainConfig().min_updates,
            passes=TrainConfig().passes,
            encoder_lr=self.config.train.encoder_lr or plain.get("encoder_lr"),
            model_soup=1,
        )
        return TrainingStage("teach", stage.model, config, stage.samplers, self.config.seed, stage.dev)

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, seed, options, text = self.config.train, self.config.seed, self.options, self.candidates()
        teacher = self.folders if options.teacher else self._own_teacher(start)
        model = self._student(start, teacher, text)
        self._check_heads(teacher, model.head(TARGET))
        sampler = TextSampler(model, TARGET, text, options.batch_size, seed)
        if self.labelled:
            gold = [self.sampler(model, TARGET, self.labelled, config)]
        elif self.uses_sources:
            theirs = replace(config, batch_size=self.config.pretrain.batch_size)
            gold = [self.sampler(model, TARGET, labels_of(c), theirs) for c in self.setup.sources]
        else:
            gold = list[BatchSampler]()
        dev: list[tuple[str, Sequence[Sentence]]] = []
        if self.learns_labels:
            dev = [(TARGET, self.target.splits.get("dev", ()))]
        if options.stop == "sources":
            dev = [(TARGET, sentences) for _, sentences in self.source_dev()]
        return TeacherStudentStage(model, config, sampler, gold, seed, dev, teacher, options)

    def _own_teacher(self, start: TaggingModel | None) -> Teacher:
        """A copy of what was learned so far: the student changes."""
        if start is None:
            raise SetupError(
                "there is no teacher: no source, no target label and no folder",
                place="options.teacher",
                expected="the folder of a run",
                fix="--set options.teacher=[RUN], --source CORPUS, or some labelled sentences of the target",
            )
        key, _ = start.named_heads()[0]
        teacher = Teacher([copy.deepcopy(start)], key)
        if not self.labelled and self.setup.types:
            teacher.restrict(self.setup.types)
        return teacher

    def _student(self, start: TaggingModel | None, teacher: Teacher, text: Sequence[Sentence]) -> TaggingModel:
        seen = Counter(token for s in text for token in s.tokens)
        often = sorted(word for word, count in seen.items() if count >= _SEEN)
        if start is None or (self.options.student == "fresh" and not self.options.teacher):
            return self._new_student(teacher, often)
        if self.labelled:
            model = self.prepare_target(start)
        else:
            model = TaggingModel(start.encoder, {TARGET: start.named_heads()[0][1]}).to(start.device)
        seed_torch(self.config.seed, "words", "text")
        model.encoder.learn_words(often)
        return model

    def _new_student(self, teacher: Teacher, words: Sequence[str]) -> TaggingModel:
        """With a head for all that the teacher knows, or for the target's types where there are labels."""
        head = teacher.heads[0]
        scheme = head.space.scheme if isinstance(head, TagHead) else self.config.head.scheme
        space = LabelSpace.of(self._types() if self.labelled else self._taught(teacher), scheme)
        gold = self.labelled or [s for c in self.setup.sources if self.uses_sources for s in c.train]
        model = self.new_model([*gold, Sentence.of(words)], {TARGET: space})
        start_new_rows(model.head(TARGET), model.encoder, self.labelled, self.config.head.new_rows, trained=False)
        return model

    def _taught(self, teacher: Teacher) -> tuple[str, ...]:
        """All types of the sources, whose labels are mixed in; of folders, those that they predict."""
        return teacher.types if self.options.teacher else teacher.heads[0].types

    def _check_heads(self, teacher: Teacher, student: Head) -> None:
        why = teacher.teaches(student)
        if why and self.options.targets == "soft":
            raise SetupError(
                why,
                place="options.targets",
                expected="teacher and student with one kind of head",
                fix=f"--set head.kind={teacher.heads[0].kind}, or --set options.targets=hard",
            )

    def finish(self, model: TaggingModel) -> TaggingModel:
        head = model.head(TARGET)
        if not self.labelled:
            self.restrict(head)
        return TaggingModel(model.encoder, {TARGET: head}).to(model.device)

    def run_notes(self, model: TaggingModel) -> list[str]:
        names = [f"'{Path(folder).name}'" for folder in self.options.teacher]
        who = ", ".join(names) or "the run's own model before it read the text"
        how = "its probabilities" if self.options.targets == "soft" else "the entities that it predicts"
        read = min(len(self.text), self.options.sentences)
        notes = [f"The student learned from {how} in up to {read:,} sentences of text; teacher: {who}."]
        if measured := self.measures(model):
            test = self.target.splits.get("test", ())
            f1 = score(test, model.predict(TARGET, test)).f1 if test else None
            notes.append(in_words(measured["distillation"], f1))
        return [*notes, *super().run_notes(model)]

    def measures(self, model: TaggingModel) -> dict[str, Any]:
        """Beside folders as teachers: what the student lost, and what it gained."""
        if not self.options.teacher:
            return {}
        if self._compared is None:
            test = self.target.splits.get("test", ())
            self._compared = {"distillation": compare(self.folders, model, self.candidates(), test)}
        return self._compared
