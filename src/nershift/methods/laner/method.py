"""LANER: a label-aware, autoregressive tagger, trained on the sources and then on the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.label_mapping import check_same, full_name, same_types
from nershift.data.labels import LabelSpace
from nershift.errors import ConfigError, SetupError
from nershift.heads.base import Head, make_head
from nershift.methods.base import TARGET, Method, Setup, register
from nershift.methods.laner.fast.check import compare_decoding
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings
from nershift.methods.laner.rows import carry_over, joined_space, nearest_types, start_from_names
from nershift.model import TaggingModel
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage

# Table 5 and §3.3. The paper does not say how long the source is trained (two epochs in the public code) nor
# whether training stops early (there after 16 epochs without a better dev score).
_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "lr": 5e-5,
    "weight_decay": 0.0,
    "clip": 0.0,
    "schedule": "constant",
    "batch_size": 16,
}
PAPER: dict[str, Any] = {
    "encoder": {
        "kind": "transformer",
        "transformer": {"name": "bert-base-cased"},
        "chars": {"use": False},
        "dropout": 0.0,  # the encoder's own dropout is all there is
    },
    "head": {"kind": "label-aware", "scheme": "BIO"},
    "pretrain": merge(_TRAINING, {"epochs": 2}),
    "train": merge(_TRAINING, {"epochs": 100, "patience": 16}),
}
RELEASED: dict[str, Any] = merge(PAPER, {"train": {"epochs": 300}, "options": {"connect": False}})
# Parts that start from nothing learn ten times as fast as the encoder, and rates rise and fall. How long the stages
# take, and swapped entities, were chosen on CrossNER's dev splits (table laner-recipes).
RATES: dict[str, Any] = {
    "lr": 5e-4,
    "encoder_lr": 5e-5,
    "schedule": "linear",
    "warmup": 0.1,
    "clip": 1.0,
}
TUNED: dict[str, Any] = merge(
    PAPER,
    {
        "pretrain": merge(RATES, {"batch_size": 64, "epochs": 4, "min_source_share": 0.1}),
        "train": merge(RATES, {"batch_size": 8, "epochs": 50, "patience": 0, "mention_replacement": 0.3}),
    },
)
PRESETS = {"paper": PAPER, "released": RELEASED, "tuned": TUNED}


@dataclass(frozen=True)
class LanerOptions:
    label_size: int = 100  # d2: of a label's vector, and of each direction of the label LSTM
    background: bool = True  # LB, eqs. 4-6
    context: bool = True  # LC, eqs. 7-8
    connect: bool = True  # eq. 7 reads the background too
    sampling: float = 0.0  # scheduled sampling: share of gold tags in a prefix that give way to predicted ones
    beam: int = 1  # hypotheses kept when decoding; 1: greedy
    labels: Literal["union", "target"] = "union"  # types the tagger has: the sources' as well, or the target's alone
    # A new type starts as the known one with the nearest name, from its own name's state, or at random.
    new_rows: Literal["nearest", "names", "random"] = "nearest"
    same: dict[str, str] = field(default_factory=dict)  # target type: source type, where names do not tell
    check: bool = False  # decode test step by step as well and count differences, in metrics.json


@register("laner")
class Laner(Method):
    """One head for all sources, over the union of their types; then one for the target that starts from it.

    Rows of a label's vector and of the classifier go with the type's name (case, punctuation and the usual short
    forms do not matter) or with ``options.same``. The public code trains the target's rows from the start, where all
    they learn on the source is that they never occur; here they are added for the target, so that one source
    training serves every target.
    """

    summary = "tags predicted from the tags before them, by label vectors that the sources have trained"
    paper = "LANER (Hu et al. 2022)"
    presets = PRESETS
    Options = LanerOptions

    def __init__(self, setup: Setup) -> None:
        joint, sources = _joined(setup.sources)
        super().__init__(replace(setup, sources=sources))
        self._source_types = joint

    def source_space(self, corpus: Corpus) -> LabelSpace:
        return LabelSpace.of(self._source_types, self.config.head.scheme)

    def check(self) -> None:
        super().check()
        if self.config.head.kind != "label-aware":
            raise ConfigError(
                f"method 'laner' was given head.kind '{self.config.head.kind}'",
                place="head.kind",
                expected="label-aware",
                fix="for the plain heads, use --method finetune (or target_only) with the same encoder settings",
            )
        settings = self.options
        for name, good, expected in (
            ("label_size", settings.label_size >= 1, "1 or more"),
            ("beam", settings.beam >= 1, "1 or more"),
            ("sampling", 0 <= settings.sampling <= 1, "a share from 0 to 1"),
        ):
            if not good:
                value = getattr(settings, name)
                raise ConfigError(f"found {value!r}", place=f"config.options.{name}", expected=expected)
        if self.setup.target is not None and not self.setup.pretrained:
            check_same(self.options.same, self.target_space.types, self._source_types)

    def new_head(self, space: LabelSpace, size: int, key: str) -> Head:
        seed_torch(self.config.seed, "decoder", key)
        settings = {f.name: getattr(self.options, f.name) for f in fields(LabelAwareSettings)}
        return make_head("label-aware", space, size, settings)

    def pretrain(self) -> TrainingStage | None:
        if not self.setup.sources:
            return None  # in-domain training
        model, config = self.source_model(), self.config.pretrain
        samplers = self.source_samplers(model, config)
        return MixedStage("pretrain", model, config, samplers, self.config.seed, self.source_dev())

    def prepare_target(self, start: TaggingModel | None) -> TaggingModel:
        before = [d for _, d in start.named_heads()] if start is not None else []
        model = super().prepare_target(start)
        if before:
            old = before[0]
            if not isinstance(old, LabelAwareHead) or len(before) > 1:
                raise SetupError(
                    "the model to start from has no single label-aware decoder",
                    place="--from",
                    fix="pretrain it with --method laner",
                )
            model.add_head(TARGET, self._grown(old, model).to(model.device))
        return model

    def _grown(self, old: LabelAwareHead, model: TaggingModel) -> LabelAwareHead:
        """A head for the target that starts from what ``old`` knows."""
        check_same(self.options.same, self.target_space.types, old.space.types)
        same = same_types(self.target_space.types, old.space.types, self.options.same)
        space = self.target_space
        if self.options.labels == "union":
            space = joined_space(space, old.space, same)
        new = self.new_head(space, model.encoder.size, TARGET)
        assert isinstance(new, LabelAwareHead)
        _check_settings(old.settings, new.settings)
        kept = {t: t for t in space.types if t in old.space.types and t not in self.target_space.types}
        known = kept | same
        unknown = [t for t in space.types if t not in known]
        nearest = self.options.new_rows == "nearest"
        like = nearest_types(model.encoder, unknown, old.space.types) if nearest else {}
        carry_over(new, old, known, like)
        if self.options.new_rows == "names":
            start_from_names(new, model.encoder, unknown)
        return new

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)

    def measures(self, model: TaggingModel) -> dict[str, Any]:
        if not self.options.check or self.options.beam > 1 or not self.target.splits.get("test"):
            return {}
        return {"decoding": compare_decoding(model, TARGET, self.target.test)}


def _joined(sources: tuple[Corpus, ...]) -> tuple[tuple[str, ...], tuple[Corpus, ...]]:
    """The types of all sources, each under the name it first has, and the sources with these names."""
    names: dict[str, str] = {}
    for corpus in sources:
        for label in corpus.types:
            names.setdefault(full_name(label), label)
    renamed = []
    for corpus in sources:
        other: Mapping[str, str] = {t: names[full_name(t)] for t in corpus.types if names[full_name(t)] != t}
        renamed.append(corpus.mapped(other) if other else corpus)
    return tuple(sorted(names.values())), tuple(renamed)


def _check_settings(old: LabelAwareSettings, new: LabelAwareSettings) -> None:
    for name in ("label_size", "background", "context", "connect"):
        found, asked = getattr(old, name), getattr(new, name)
        if found != asked:
            raise SetupError(
                f"the model to start from was trained with {name} = {found}",
                place=f"config.options.{name}",
                expected=f"{found} (this run asks for {asked})",
                fix=f"--set options.{name}={str(found).lower()}, or pretrain again",
            )
