"""DATNet: source and target together, a shared encoder that hides which is which, and adversarial examples."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from nershift.config import EncoderConfig, WordsConfig, build, merge, setting, to_dict
from nershift.data.label_mapping import check_same
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence
from nershift.encoders.build import make_words
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import ConfigError, SetupError
from nershift.heads.base import Head
from nershift.methods.base import TARGET, Method, register
from nershift.methods.datnet.crf_view import CRFView
from nershift.methods.datnet.grad_loss import ResourceDiscriminator
from nershift.methods.datnet.heads import Rows, joint_rows, joint_space, view
from nershift.methods.datnet.shared_private import make_pair, shared_size, sized
from nershift.methods.datnet.stage import DualSettings, DualStage, pooled_states
from nershift.model import TaggingModel
from nershift.storage import save_tensors
from nershift.text.word_cache import Vocabulary
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

log = logging.getLogger(__name__)

SOURCE = "source"  # the model of the source, kept among the extra parts of the target's
STATES = "states.safetensors"  # shared states of some sentences, for the report
FEW = 100  # target sentences up to which full sharing is the better choice (§4.4)
_SHOWN = 300  # sentences of source and of target whose shared states are kept


@dataclass(frozen=True)
class AutoOptions:
    """What every variant has; ε is the norm of a perturbation, one for each sentence (eq. 3)."""

    adversary: Literal["grad", "ad", "none"] = "grad"
    alpha: float = 0.25  # weight of source sentences in GRAD, 1 - alpha of target sentences
    gamma: float = 2.0
    weight: float = 1.0  # of the reversed gradient
    adversarial_training: bool = True
    epsilon_source: float = 5.0  # for word vectors of the source
    epsilon_target: float = 5.0  # for word vectors of the target
    epsilon_chars: float = 5.0  # for character vectors
    private_size: int = 100  # units a direction of each LSTM of variant P (F: encoder.recurrent.size)
    words: Literal["auto", "shared", "separate"] = "auto"  # auto: one table where the languages agree
    source_words: dict[str, Any] = field(default_factory=dict)  # the source's own over encoder.words
    # shared: one head, in which like types share rows; auto: so for variant F, if there are like types
    heads: Literal["auto", "separate", "shared"] = setting("auto", was="decoders")
    same: dict[str, str] = field(default_factory=dict)  # target type: source type, where names do not tell
    source_share: float = 0.4  # source batches in an epoch, as a share of all
    balance: float = 0.5  # 1: the target passes once an epoch; 0: a target batch in every step
    epoch_steps: int = 0  # steps of an epoch; 0: those of source_share or of the target, whichever is more
    test_oracle: bool = False  # also score test after every epoch, for comparison with others who select on it


@dataclass(frozen=True)
class DATNetOptions(AutoOptions):
    variant: Literal["F", "P", "base"] = "F"  # base: the target alone
    heads: Literal["auto", "separate", "shared"] = setting("separate", was="decoders")  # as in the paper


# Batch size, epochs, dropout and filter widths are not in the paper; these are those of its public code.
_PAPER: dict[str, Any] = {
    "encoder": {
        "kind": "recurrent",
        "words": {"size": 50, "train": False},
        "chars": {"use": True, "size": 30, "widths": [2, 3, 4], "filters": 60},
        "recurrent": {"cell": "lstm", "size": 200, "layers": 1},
        "input_dropout": 0.2,
        "dropout": 0.5,
    },
    "head": {"kind": "crf", "scheme": "BIOES"},
    "train": {
        "optimizer": "adam",
        "lr": 1e-3,
        "weight_decay": 0.0,
        "clip": 5.0,
        "schedule": "inverse",
        "lr_decay": 0.05,
        "batch_size": 16,
        "epochs": 50,
    },
}
# In the public code α cancels out (both halves of a two-class softmax are weighted), which is α = 1/2 here; the
# norm of a perturbation of characters is taken for each dimension, which is √30 times the stated ε in all.
_RELEASED = merge(
    _PAPER,
    {"options": {"alpha": 0.5, "weight": 0.7, "epsilon_chars": 27.4, "balance": 1.0}},
)


_PRESETS = {"paper": _PAPER, "released": _RELEASED}


@register("auto-datnet")
class AutoDATNet(Method):
    """The variant is chosen by the rule of §4.4; the choice and its reason stand in the run's report."""

    summary = "datnet that picks its variant: full sharing for one language or few labels, else partial"
    paper = "DATNet §4.4"
    Options: ClassVar[type] = AutoOptions
    presets = _PRESETS
    min_sources = 1

    def check(self) -> None:
        super().check()
        self._check_settings()
        if self.setup.sources and self.setup.target is not None:
            self._check_heads()
        for remark in self.run_notes() if self.setup.target is not None else ():
            log.info("%s", remark)

    def _check_settings(self) -> None:
        if self.config.encoder.kind != "recurrent":
            raise ConfigError(
                f"found '{self.config.encoder.kind}'",
                place="encoder.kind",
                expected=f"recurrent: method '{self.name}' shares and perturbs a recurrent encoder",
            )
        for name in ("alpha", "balance", "source_share"):
            value = getattr(self.options, name)
            if not (0 <= value <= 1) or (name == "source_share" and not value):
                raise ConfigError(f"found {value}", place=f"options.{name}", expected="a share from 0 to 1")
        for name in (
            "gamma", "weight", "epsilon_source", "epsilon_target", "epsilon_chars", "private_size", "epoch_steps",
        ):  # fmt: skip
            value = getattr(self.options, name)
            if value < int(name == "private_size"):
                raise ConfigError(f"found {value}", place=f"options.{name}", expected="0 or more")

    def _check_heads(self) -> None:
        o, kind = self.options, self.config.head.kind
        if o.heads == "separate":
            if o.same:
                raise ConfigError(
                    "types that mean the same were given, but each side has a head of its own",
                    place="config.options.same",
                    expected="options.heads shared",
                    fix="--set options.heads=shared, or leave options.same away",
                )
            return
        check_same(o.same, self.target_space.types, sorted({t for c in self.setup.sources for t in c.types}))
        if not self.one_head:
            return
        own = {t: t for t in self.target_space.types}
        if any(rows != own for rows in self._joint_rows().values()) and kind != "crf":
            raise ConfigError(
                f"found '{kind}'",
                place="config.head.kind",
                expected="crf: only its head can be shared by sides with different types",
            )

    # -- the variant -------------------------------------------------------------------------------------

    @property
    def same_language(self) -> bool:
        """Corpora that do not say their language are taken to be of the target's."""
        languages = {c.language.lower() for c in (self.target, *self.setup.sources) if c.language}
        return len(languages) < 2

    def choice(self) -> tuple[str, str]:
        """Variant and the reason for it."""
        labelled = len(self.target.train)
        if self.same_language:
            return "F", "since source and target are of one language"
        if labelled <= FEW:
            return (
                "F",
                f"since {labelled} target sentences ({FEW} or fewer) are too few for layers of their own",
            )
        return (
            "P",
            f"since the languages differ and {labelled} target sentences (over {FEW}) can train private layers",
        )

    @property
    def one_head(self) -> bool:
        """Whether both sides share a head. Left to choose, variant F does where it can (table ``datnet-heads``)."""
        if self.options.heads != "auto":
            return bool(self.options.heads == "shared")
        if self.choice()[0] != "F" or self.config.head.kind != "crf":
            return False
        try:
            self._joint_rows()
        except SetupError:  # no types in common, or two of one side with one meaning
            return False
        return True

    def run_notes(self) -> list[str]:
        variant, reason = self.choice()
        told = [f"DATNet-{variant}, {reason}."]
        if self.options.heads == "auto" and self.one_head:
            rows = {row for mine in self._joint_rows().values() for row in mine.values()}
            like = [t for t in self.target_space.types if t in rows]
            told.append(f"One head for both sides, since both have {', '.join(like)}.")
        return told

    # -- training ----------------------------------------------------------------------------------------

    def train(self, start: TaggingModel | None) -> TrainingStage:
        config, seed = self.config.train, self.config.seed
        models = self._models()
        ours = models[TARGET]
        samplers = {TARGET: self.sampler(ours, TARGET, self.target.train, config)}
        if SOURCE in models:
            keys = self.source_keys()
            for corpus in self.setup.sources:
                samplers[f"{SOURCE} {corpus.name}"] = self.sampler(
                    models[SOURCE], keys[corpus.name], corpus.train, config
                )
        dev = [(TARGET, self.target.splits.get("dev", ()))]
        stage = DualStage("train", ours, config, samplers, seed, dev, settings=self._settings(SOURCE in models))
        if self.options.test_oracle and self.target.splits.get("test"):
            stage.monitors = {"test_oracle_f1": (TARGET, self.target.test)}
        return stage

    def _settings(self, adversary: bool) -> DualSettings:
        o = self.options
        return DualSettings(
            adversary=o.adversary if adversary else "none",
            alpha=o.alpha,
            gamma=o.gamma,
            weight=o.weight,
            perturb=o.adversarial_training,
            epsilon_source=o.epsilon_source,
            epsilon_target=o.epsilon_target,
            epsilon_chars=o.epsilon_chars,
            source_share=o.source_share,
            balance=o.balance,
            epoch_steps=o.epoch_steps,
        )

    def _models(self) -> dict[str, TaggingModel]:
        """The target's model and, unless it is trained alone, the source's, which is a part of the former."""
        variant, _ = self.choice()
        config = self.config.encoder
        if variant == "base":
            return {TARGET: self.new_model(self.target.train, {TARGET: self.target_space})}
        if variant == "P":
            config = sized(config, self.options.private_size)
        ours, theirs = self._encoders(config, private=variant == "P")
        head, heads = self._heads(ours.size)
        target = TaggingModel(ours, {TARGET: head})
        target.extras[SOURCE] = source = TaggingModel(theirs, heads)
        if self.options.adversary != "none":
            seed_torch(self.config.seed, "discriminator")
            target.extras["discriminator"] = ResourceDiscriminator(shared_size(ours))
        return {TARGET: target, SOURCE: source}

    def _source_spaces(self) -> dict[str, LabelSpace]:
        keys = self.source_keys()
        return {keys[c.name]: self.source_space(c) for c in self.setup.sources}

    def _joint_rows(self) -> dict[str, Rows]:
        return joint_rows(self.target_space, self._source_spaces(), self.options.same)

    def _heads(self, size: int) -> tuple[Head, dict[str, Head]]:
        """The target's and, by key, the sources'."""
        ours, theirs = self.target_space, self._source_spaces()
        if not self.one_head:
            head = self.new_head(ours, size, TARGET)
            return head, {key: self.new_head(s, size, f"{SOURCE} {key}") for key, s in theirs.items()}
        rows = self._joint_rows()
        whole = self.new_head(joint_space(ours, rows), size, TARGET)
        own = {t: t for t in ours.types}
        return view(whole, ours, own), {key: view(whole, s, rows[key]) for key, s in theirs.items()}

    def _encoders(self, config: EncoderConfig, private: bool) -> tuple[RecurrentEncoder, RecurrentEncoder]:
        target = _words(self.target.train)
        source = _words([s for c in self.setup.sources for s in c.train])
        letters = Vocabulary(sorted({letter for word in target | source for letter in word}))
        theirs = build(
            WordsConfig,
            merge(to_dict(config.words), self.options.source_words),
            "config.options.source_words",
        )
        shared = self.options.words == "shared" or (
            self.options.words == "auto" and self.same_language and not self.options.source_words
        )
        seed_torch(self.config.seed, "encoder")
        table = make_words(config.words, target + source if shared else target)
        other = table if shared else make_words(theirs, source)
        if other.size != table.size:
            raise ConfigError(
                f"word vectors of {table.size} dimensions for the target and {other.size} for the source",
                place="options.source_words",
                expected="one dimension, since both feed one LSTM",
                fix="sub-word vectors can be cut to any size: --set encoder.words.size=N",
            )
        return make_pair(config, table, other, letters, private=private)

    # -- after training ----------------------------------------------------------------------------------

    def finish(self, model: TaggingModel) -> TaggingModel:
        self._shown = {} if SOURCE not in model.extras else self._shared_states(model)
        head = model.head(TARGET)
        kept = head.plain() if isinstance(head, CRFView) else head
        return TaggingModel(model.encoder, {TARGET: kept}).to(model.device)

    def _shared_states(self, model: TaggingModel) -> dict[str, Any]:
        source = model.extras[SOURCE]
        assert isinstance(source, TaggingModel)
        text = [s for c in self.setup.sources for s in _spread(c.splits.get("dev") or c.train, _SHOWN)]
        key = source.named_heads()[0][0]
        return {
            SOURCE: pooled_states(source, key, _spread(text, _SHOWN)),
            TARGET: pooled_states(model, TARGET, _spread(self.target.splits.get("dev") or self.target.train, _SHOWN)),
        }

    def keep(self, folder: Path) -> None:
        if self._shown:
            save_tensors(folder / STATES, self._shown, {"adversary": self.options.adversary})


@register("datnet")
class DATNet(AutoDATNet):
    summary = "source and target together: shared LSTM (F) or shared and private ones (P), GRAD, adversarial training"
    paper = "DATNet"
    Options = DATNetOptions
    min_sources = 0

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

    def run_notes(self) -> list[str]:
        return []  # it chose nothing


def _words(sentences: Sequence[Sentence]) -> Counter[str]:
    return Counter(token for s in sentences for token in s.tokens)


def _spread(sentences: Sequence[Sentence], most: int) -> list[Sentence]:
    """At most so many sentences, from all over the set."""
    full = [s for s in sentences if len(s)]
    step = max(1, -(-len(full) // most))
    return full[::step]
