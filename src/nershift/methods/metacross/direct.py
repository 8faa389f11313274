"""Direct transfer (Base Model): a token classifier on a multilingual encoder, trained on the source language alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from nershift.config import merge
from nershift.errors import ConfigError, SetupError
from nershift.heads.base import Head
from nershift.methods.base import Setup, register
from nershift.methods.metacross.options import DirectOptions
from nershift.methods.metacross.token_classifier import sentence_losses
from nershift.methods.source_only import SharedHead, ZeroShot
from nershift.model import Batch, TaggingModel
from nershift.training.stage import MixedStage, TrainingStage

# From the paper's Implementation Details. It gives no number of epochs on target data: 10 is the released code's.
_TRAINING: dict[str, Any] = {
    "optimizer": "adam",
    "lr": 3e-5,
    "weight_decay": 0.0,
    "clip": 0.0,
    "batch_size": 32,
}
PAPER: dict[str, Any] = {
    "encoder": {
        "kind": "transformer",
        "transformer": {
            "name": "bert-base-multilingual-cased",
            "max_subwords": 128,
            "overlap": 64,
            "freeze_embeddings": True,
            "freeze_layers": 3,
        },
        "chars": {"use": False},
        "dropout": 0.1,
    },
    "head": {"kind": "softmax", "scheme": "BIO"},
    "pretrain": {**_TRAINING, "epochs": 1000, "updates": 3000},
    "train": {**_TRAINING, "epochs": 10},
}
# Where the released code differs in a way that can matter: its Adam, its schedule, and one more frozen layer.
_RELEASED_TRAINING = {"optimizer": "bertadam", "schedule": "linear", "warmup": 0.1}
RELEASED: dict[str, Any] = merge(
    PAPER,
    {
        "encoder": {"transformer": {"freeze_layers": 4}},
        "pretrain": _RELEASED_TRAINING,
        "train": {"optimizer": "bertadam"},
    },
)


class TokenStage(MixedStage):
    """The mean of eq. 3 over the sentences of a batch."""

    cuda_graph_safe = True

    def loss(self, batches: Mapping[str, Batch]) -> Tensor:
        return torch.stack([sentence_losses(self.model, batch).mean() for batch in batches.values()]).sum()


class TokenMethod(SharedHead):
    """What direct transfer and MetaCross share: the classifier, and a rule for types that the target lacks."""

    def __init__(self, setup: Setup) -> None:
        labels = setup.options.labels
        mapped = tuple(c.mapped(labels) for c in setup.sources) if labels else setup.sources
        super().__init__(dataclasses.replace(setup, sources=mapped))

    def check(self) -> None:
        super().check()
        encoder, head = self.config.encoder, self.config.head
        if encoder.kind != "transformer" or encoder.chars.use or head.kind != "softmax":
            found = f"a {encoder.kind} encoder{' with characters' * encoder.chars.use}, a {head.kind} head"
            raise ConfigError(
                f"method '{self.name}' was given {found}",
                place="encoder, head",
                expected="encoder.kind=transformer, encoder.chars.use=false, head.kind=softmax",
            )
        if self.setup.target is None or self.setup.pretrained:
            return
        known = {*self.target_space.types, *self.options.labels.values()}
        extra = sorted({t for c in self.setup.sources for t in c.types if t not in known})
        if extra:
            raise SetupError(
                f"the sources have types that the target lacks: {', '.join(extra)}",
                place="--source",
                expected="a rule for each of them",
                fix=f"--set options.labels.{extra[0]}=O to drop it, or ={extra[0]} to keep predicting it",
            )

    def restrict(self, head: Head) -> None:
        """Types that ``options.labels`` keeps are predicted too."""
        if self.setup.types:
            head.restrict({*self.setup.types, *self.options.labels.values()})

    def target_stage(self, start: TaggingModel | None) -> TrainingStage:
        plain = super().target_stage(start)
        return TokenStage(plain.name, plain.model, plain.config, plain.samplers, plain.seed, plain.dev)


class DirectTraining(TokenMethod):
    """Supervised training on the sources."""

    presets = {"default": PAPER, "paper": PAPER, "released": RELEASED}  # noqa: RUF012 - as declared in Method
    Options = DirectOptions

    def pretrain(self) -> TrainingStage:
        model, config = self.source_model(), self.config.pretrain
        samplers = self.source_samplers(model, config)
        return TokenStage("pretrain", model, config, samplers, self.config.seed, self.source_dev())


@register("direct")
class Direct(DirectTraining, ZeroShot):
    summary = "a multilingual encoder trained on the source language, used on the target as it is (no target labels)"
    paper = "MetaCross, Base Model"


@register("direct-few")
class DirectFew(DirectTraining):
    summary = "direct, then fine-tuned on the labelled target sentences"
    paper = "MetaCross, Discussion (Base Model)"

    def train(self, start: TaggingModel | None) -> TrainingStage:
        return self.target_stage(start)
