"""DATNet trains on source and target together: a shared encoder, GRAD against it, and adversarial examples."""

from __future__ import annotations

import dataclasses
import logging
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from nershift.config import WordsConfig, build, merge, to_dict
from nershift.data.labels import LabelSpace
from nershift.data.languages import plain_language
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import ConfigError, SetupError
from nershift.heads.base import Head
from nershift.methods.base import TARGET, Method, register
from nershift.methods.datnet.grad_loss import ResourceDiscriminator
from nershift.methods.datnet.heads import Rows, joint_rows, joint_space, view
from nershift.methods.datnet.model import DATNetModel, ResourceModel
from nershift.methods.datnet.options import PRESETS, AutoOptions, DATNetOptions
from nershift.methods.datnet.shared_private import encoders_for, shared_size
from nershift.methods.datnet.stage import DATNetStage
from nershift.model import TaggingModel
from nershift.storage import save_tensors
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

log = logging.getLogger(__name__)

STATES = "states.safetensors"  # shared states of some sentences, for the report
FEW = 100  # target sentences up to which full sharing is the better choice (§4.4)
_SHOWN = 300  # sentences per side whose shared states are saved


class DATNetBase(Method, ABC):
    """What `datnet` and `auto-datnet` share: all but who chooses the variant."""

    presets = PRESETS
    options: DATNetOptions | AutoOptions

    @abstractmethod
    def choice(self) -> tuple[str, str]:
        """The variant (F, P or base) and the reason for it."""

    # -- checks ------------------------------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        self.need_recurrent(f"method '{self.name}' shares and perturbs a recurrent encoder")
        if self.setup.sources and self.setup.target is not None:
            self._check_heads()

    def _check_heads(self) -> None:
        o, kind = self.options, self.config.head.kind
        if o.heads == "separate":
            if self.config.head.same:
                raise ConfigError(
                    "types that mean the same were given, but each side has a head of its own",
                    place="--same",
                    expected="options.heads shared",
                    fix="--set options.heads=shared, or omit --same",
                )
            return
        if not self.one_head:
            return
        own = {t: t for t in self.target_space.types}
        if any(rows != own for rows in self._joint_rows().values()) and kind != "crf":
            raise ConfigError(
                f"found '{kind}'",
                place="config.head.kind",
                expected="crf: only its head can be shared by sides with different types",
            )

    # -- the model ---------------------------------------------------------------------------------------

    @property
    def same_language(self) -> bool:
        """Corpora that do not name their language count as being in the target's."""
        languages = {plain_language(c.language) for c in (self.target, *self.setup.sources) if c.language}
        return len(languages) < 2

    @property
    def one_head(self) -> bool:
        """Whether both sides share a head; by default variant F does where it can (table ``datnet-heads``)."""
        if self.options.heads != "auto":
            return self.options.heads == "shared"
        if self.choice()[0] != "F" or self.config.head.kind != "crf":
            return False
        try:
            self._joint_rows()
        except SetupError:  # no types in common, or two types of one side with one meaning
            return False
        return True

    def _model(self) -> DATNetModel:
        variant, _ = self.choice()
        config, seed = self.config.encoder, self.config.seed
        target = _words(self.target.train)
        if variant == "base":
            seed_torch(seed, "encoder")
            encoder = RecurrentEncoder.new(config, target)
            return DATNetModel(encoder, self.new_head(self.target_space, encoder.size, TARGET))
        if variant == "P":
            config = dataclasses.replace(
                config, recurrent=dataclasses.replace(config.recurrent, size=self.options.private_size)
            )
        seed_torch(seed, "encoder")
        ours, theirs = encoders_for(
            config,
            target,
            _words([s for c in self.setup.sources for s in c.train]),
            source_words=self._source_words(),
            private=variant == "P",
        )
        head, heads = self._heads(ours.size)
        discriminator = None
        if self.options.adversary != "none":
            seed_torch(seed, "discriminator")
            discriminator = ResourceDiscriminator(shared_size(ours))
        return DATNetModel(ours, head, ResourceModel(theirs, heads), discriminator)

    def _source_words(self) -> WordsConfig | None:
        """Settings of the source's word vectors; None: both sides have one table."""
        o = self.options
        if o.word_tables == "shared" or (o.word_tables == "auto" and self.same_language and not o.source_words):
            return None
        values = merge(to_dict(self.config.encoder.words), o.source_words)
        return build(WordsConfig, values, "config.options.source_words")

    def _source_spaces(self) -> dict[str, LabelSpace]:
        keys = self.source_keys()
        return {keys[c.name]: self.source_space(c) for c in self.setup.sources}

    def _joint_rows(self) -> dict[str, Rows]:
        return joint_rows(self.target_space, self._source_spaces(), self.config.head.same)

    def _heads(self, size: int) -> tuple[Head, dict[str, Head]]:
        """The target's and, by key, the sources'."""
        ours, theirs = self.target_space, self._source_spaces()
        if not self.one_head:
            head = self.new_head(ours, size, TARGET)
            return head, {key: self.new_head(s, size, f"source {key}") for key, s in theirs.items()}
        rows = self._joint_rows()
        whole = self.new_head(joint_space(ours, rows), size, TARGET)
        own = {t: t for t in ours.types}
        return view(whole, ours, own), {key: view(whole, s, rows[key]) for key, s in theirs.items()}

    # -- training ----------------------------------------------------------------------------------------

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, model = self.config.train, self._model()
        samplers = {TARGET: self.sampler(model, TARGET, self.target.train, config)}
        if model.source is not None:
            keys = self.source_keys()
            for corpus in self.setup.sources:
                name = f"source {corpus.name}"
                samplers[name] = self.sampler(model.source, keys[corpus.name], corpus.train, config)
        dev = [(TARGET, self.target.splits.get("dev", ()))]
        stage = DATNetStage(model, config, samplers, self.config.seed, dev, self.options)
        if self.options.test_oracle and self.target.splits.get("test"):
            stage.monitors = {"test_oracle_f1": (TARGET, self.target.test)}
        return stage

    def finish(self, model: TaggingModel) -> TaggingModel:
        return model.deployable(TARGET)

    def save_artifacts(self, model: TaggingModel, folder: Path) -> None:
        """The shared states of both sides, which the report draws as Figure 3 does."""
        if not isinstance(model, DATNetModel) or model.source is None:
            return  # the target alone shares nothing
        theirs = [s for c in self.setup.sources for s in _spread(c.splits.get("dev") or c.train)]
        ours = _spread(self.target.splits.get("dev") or self.target.train)
        states = {
            "source": model.source.pooled_states(model.source.named_heads()[0][0], _spread(theirs)),
            "target": model.pooled_states(TARGET, ours),
        }
        save_tensors(folder / STATES, states, {"adversary": self.options.adversary})


@register("datnet")
class DATNet(DATNetBase):
    summary = "source and target together: shared LSTM (F) or shared and private ones (P), GRAD, adversarial training"
    paper = "DATNet"
    Options: ClassVar[type] = DATNetOptions
    options: DATNetOptions

    def check(self) -> None:
        given, base = len(self.setup.sources), self.options.variant == "base"
        if base == bool(given):
            raise SetupError(
                f"variant '{self.options.variant}' was given {given} source corpora",
                place="--source",
                expected="none" if base else "at least 1",
                fix="set options.variant to F or P for transfer, to base for the target alone",
            )
        super().check()

    def choice(self) -> tuple[str, str]:
        return self.options.variant, "as the settings say"


@register("auto-datnet")
class AutoDATNet(DATNetBase):
    """The rule of §4.4 chooses the variant; the report says which, and why."""

    summary = "datnet that picks its variant: full sharing for one language or few labels, else partial"
    paper = "DATNet §4.4"
    Options: ClassVar[type] = AutoOptions
    options: AutoOptions
    min_sources = 1

    def check(self) -> None:
        super().check()
        for note in self.choices() if self.setup.target is not None else ():
            log.info("%s", note)

    def choice(self) -> tuple[str, str]:
        labelled = len(self.target.train)
        if self.same_language:
            return "F", "since source and target are of one language"
        if labelled <= FEW:
            return "F", f"since {labelled} target sentences ({FEW} or fewer) are too few for layers of their own"
        return (
            "P",
            f"since the languages differ and {labelled} target sentences (over {FEW}) can train private layers",
        )

    def run_notes(self, model: TaggingModel) -> list[str]:
        return [*super().run_notes(model), *self.choices()]

    def choices(self) -> list[str]:
        """What was chosen for the user, as sentences."""
        variant, reason = self.choice()
        notes = [f"DATNet-{variant}, {reason}."]
        if self.options.heads == "auto" and self.one_head:
            rows = {row for mine in self._joint_rows().values() for row in mine.values()}
            like = [t for t in self.target_space.types if t in rows]
            notes.append(f"One head for both sides, since both have {', '.join(like)}.")
        return notes


def _words(sentences: Sequence[Sentence]) -> Counter[str]:
    return Counter(token for s in sentences for token in s.tokens)


def _spread(sentences: Sequence[Sentence]) -> list[Sentence]:
    """At most ``_SHOWN`` sentences, evenly spread over the set."""
    full = [s for s in sentences if len(s)]
    return full[:: max(1, -(-len(full) // _SHOWN))]
