"""LANER: a label-aware tagger, trained on the sources and then on the target (§2.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch

from nershift.config import merge, setting
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelMapping, LabelSpace, check_mapping, full_name
from nershift.errors import ConfigError, SetupError
from nershift.heads.start import start_new_rows
from nershift.methods.base import TARGET, Method, Setup, move_to, register
from nershift.methods.laner import head as label_aware
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings
from nershift.methods.laner.rows import carry_over, joined_space, nearest_types
from nershift.methods.laner.stage import OwnTypesStage
from nershift.model import TaggingModel
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

# Table 5 and §3.3. The paper does not say how long the source is trained (two epochs in the public code) or whether
# training stops early (there, after 16 epochs without a better dev score).
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
        "dropout": 0.0,  # only the encoder's own dropout is used
    },
    "head": {"kind": "label-aware", "scheme": "BIO"},
    "pretrain": merge(_TRAINING, {"epochs": 2}),
    "train": merge(_TRAINING, {"epochs": 100, "patience": 16}),
}
RELEASED: dict[str, Any] = merge(PAPER, {"train": {"epochs": 300}, "options": {"connect": False}})
# New layers learn ten times as fast as the encoder, with warm-up and linear decay. The length of the stages and the
# share of replaced entities were chosen on CrossNER's dev splits (table laner-recipes).
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
# The same in updates, so that fewer labels do not mean less training.
DEFAULT: dict[str, Any] = merge(
    TUNED, {"pretrain": {"epochs": 0, "updates": 900}, "train": {"epochs": 0, "min_updates": 800, "average_last": 0.3}}
)
PRESETS = {"default": DEFAULT, "paper": PAPER, "released": RELEASED, "tuned": TUNED}


@dataclass(frozen=True)
class LanerOptions(LabelAwareSettings):
    """The settings of the head, and how the head of the target starts from that of the sources."""

    labels: Literal["union", "target"] = setting(
        "union", "Types that have rows: the sources' types as well (never predicted), or the target's alone."
    )
    new_rows: Literal["auto", "names", "prototypes", "nearest", "random"] = setting(
        "auto",
        "How a type that the sources lack starts: as head.new_rows says (auto: names), or as the known type with the "
        "nearest name (nearest).",
    )
    own_types: bool = setting(
        False, "On the sources, a sentence chooses among the types of its own corpus; false: of all sources."
    )
    check: bool = setting(False, "Decode test token by token as well, and count the differences in metrics.json.")


@register("laner")
class Laner(Method):
    """One head for all sources, over the union of their types, then one for the target that starts from it.

    The rows of a type (its label vector, its row of the classifier) go to the target's type of the same name (case,
    punctuation and the usual short forms do not matter) or as ``head.same`` says. The public code has rows for the
    target's types from the start, and the source teaches them only that they never occur. Here they are added for the
    target, so that one source training serves every target.
    """

    summary = "tags predicted from the tags before them, by label vectors that the sources have trained"
    paper = "LANER (Hu et al. 2022)"
    presets = PRESETS
    Options = LanerOptions
    options: LanerOptions

    def __init__(self, setup: Setup) -> None:
        types, sources = _with_common_names(setup.sources)
        super().__init__(replace(setup, sources=sources))
        self._source_types = types

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

    def new_head(self, space: LabelSpace, size: int, key: str) -> LabelAwareHead:
        seed_torch(self.config.seed, "decoder", key)
        return LabelAwareHead(space, size, self.options)

    def pretrain(self) -> TrainingStage | None:
        if not self.setup.sources:
            return None  # in-domain training (Table 4)
        if not self.options.own_types:
            return self.source_stage()
        model, config = self.source_model(), self.config.pretrain
        return OwnTypesStage(
            "pretrain",
            model,
            config,
            self.source_samplers(model, config),
            self.config.seed,
            self.source_dev(),
            head=cast(LabelAwareHead, next(head for _, head in model.named_heads())),
            types={corpus.name: corpus.types for corpus in self.setup.sources},
        )

    def prepare_target(self, start: TaggingModel | None) -> TaggingModel:
        old = [h for _, h in start.named_heads()] if start is not None else []
        if start is None or not old:
            return super().prepare_target(start)
        if not isinstance(old[0], LabelAwareHead) or len(old) > 1:
            raise SetupError(
                "the model to start from does not have a single label-aware head",
                place="--from",
                fix="pretrain it with --method laner",
            )
        model = move_to(start, self.target_space, self.target.train, self.new_head, self.config.seed, None, "random")
        model.add_head(TARGET, self._target_head(old[0], model).to(model.device))
        return model

    def _row_start(self) -> Literal["names", "prototypes", "nearest", "random"]:
        told = self.options.new_rows
        if told == "auto":
            told = self.config.head.new_rows
        return "names" if told == "auto" else told

    def _target_head(self, old: LabelAwareHead, model: TaggingModel) -> LabelAwareHead:
        """A head for the target that starts from what ``old`` knows."""
        check_mapping(self.config.head.same, self.target_space.types, old.types)
        same = LabelMapping.between(self.target_space.types, old.types, self.config.head.same)
        space = self.target_space
        if self.options.labels == "union":
            space = joined_space(space, old.space, same)
        new = self.new_head(space, model.encoder.size, TARGET)
        _check_shape(old.settings, new.settings)
        kept = {t: t for t in space.types if t in old.space.types and t not in self.target_space.types}
        known = kept | dict(same)
        unknown = [t for t in space.types if t not in known]
        how = self._row_start()
        like = nearest_types(model.encoder, unknown, old.space.types) if how == "nearest" else {}
        carry_over(new, old, known, like)
        new.kept_rows, new.new_rows = dict(same), {t: f"as {source}" for t, source in like.items()}
        if how != "nearest":
            start_new_rows(new, model.encoder, self.target.train, how, unknown)
        new.restrict(self.target_space.types)
        return new

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)

    def measures(self, model: TaggingModel) -> dict[str, Any]:
        head, test = model.head(TARGET), self.target.splits.get("test")
        if not (self.options.check and test and self.options.beam == 1 and label_aware.fast):
            return {}
        if not isinstance(head, LabelAwareHead):  # the head of a start that was trained by another method
            return {}
        model.eval()
        with torch.no_grad():
            batches = ((model.states(b), b.mask) for _, b in model.batches(TARGET, test, 128))
            return {"decoding": label_aware.fast.compare(head, batches)}


def _with_common_names(sources: tuple[Corpus, ...]) -> tuple[tuple[str, ...], tuple[Corpus, ...]]:
    """The types of all sources, each under the first name it has, and the sources with these names."""
    names: dict[str, str] = {}
    for corpus in sources:
        for label in corpus.types:
            names.setdefault(full_name(label), label)
    renamed = []
    for corpus in sources:
        other: Mapping[str, str] = {t: names[full_name(t)] for t in corpus.types if names[full_name(t)] != t}
        renamed.append(corpus.mapped(other) if other else corpus)
    return tuple(sorted(names.values())), tuple(renamed)


def _check_shape(old: LabelAwareSettings, new: LabelAwareSettings) -> None:
    """Refuse a start whose layers do not fit."""
    for name in ("label_size", "background", "context", "connect"):
        there, asked = getattr(old, name), getattr(new, name)
        if there != asked:
            raise SetupError(
                f"the model to start from was trained with {name} = {there}",
                place=f"config.options.{name}",
                expected=f"{there} (this run asks for {asked})",
                fix=f"--set options.{name}={str(there).lower()}, or pretrain again",
            )
