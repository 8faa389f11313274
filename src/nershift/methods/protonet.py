"""Prototypical network on single tokens: the prototype of a tag is the mean state of the tokens that carry it."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from nershift.config import merge
from nershift.data.labels import LabelSpace
from nershift.heads.base import Head
from nershift.heads.prototype import PrototypeHead
from nershift.methods.base import TARGET, Method, register
from nershift.methods.presets import DEFAULT, METANER
from nershift.model import TaggingModel
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import seed_torch
from nershift.training.stage import MixedStage, TrainingStage

# BIO, not BIOES: few labels rarely have tokens for every tag of BIOES, and a prototype needs some.
_HEAD = {"head": {"kind": "prototypes", "scheme": "BIO"}}
_PRESETS = {"default": merge(DEFAULT, _HEAD), "paper": merge(METANER, _HEAD)}


class _TargetEpisodes(TrainingStage):
    """Scored on dev with the prototypes of the whole training set."""

    def validate(self) -> float | None:
        settle(self.model, list(self.samplers.values()))
        return super().validate()


class _SourceEpisodes(_TargetEpisodes, MixedStage):
    pass


def settle(model: TaggingModel, samplers: list[BatchSampler]) -> None:
    """Set the prototypes of each head to the means over all sentences of its samplers."""

    def support(key: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for sampler in samplers:
            for k in range(sampler.per_epoch if sampler.key == key else 0):
                batch = sampler.as_labelled(sampler.indices(k))
                assert batch.targets is not None
                yield model.states(batch), batch.mask, batch.targets

    was_training = model.training
    model.eval()
    with torch.no_grad():
        for key, head in model.named_heads():
            if isinstance(head, PrototypeHead):
                head.settle(support(key))
    model.train(was_training)


@register("protonet", "wpz")
class ProtoNet(Method):
    """Each batch is an episode: the prototypes of one half classify the tokens of the other half."""

    summary = "prototypes of single tokens, learned in episodes on the sources, then on the target"
    paper = "MetaNER §5.1.1 (WPZ; Fritzler et al. 2019)"
    presets = _PRESETS
    min_sources = 1

    def new_head(self, space: LabelSpace, size: int, key: str) -> Head:
        """A prototype head, whatever ``head.kind`` is."""
        seed_torch(self.config.seed, "decoder", key)
        return PrototypeHead(space, size)

    def pretrain(self) -> TrainingStage:
        model, config = self.source_model(), self.config.pretrain
        samplers = self.source_samplers(model, config)
        return _SourceEpisodes("pretrain", model, config, samplers, self.config.seed, self.source_dev())

    def prepare_target(self, start: TaggingModel | None) -> TaggingModel:
        """A new head starts with the mean of what the sources' heads learned for ``O``."""
        heads = start.named_heads() if start is not None else []
        outside = [head.outside.detach() for _, head in heads if isinstance(head, PrototypeHead)]
        model = super().prepare_target(start)
        head = model.head(TARGET)
        if outside and isinstance(head, PrototypeHead):
            with torch.no_grad():
                head.outside.copy_(torch.stack(outside).mean(0))
        return model

    def train(self, start: TaggingModel | None) -> TrainingStage:
        model, config = self.prepare_target(start), self.config.train
        sampler = self.sampler(model, TARGET, self.target.train, config)
        dev = [(TARGET, self.target.splits.get("dev", ()))]
        return _TargetEpisodes("train", model, config, {TARGET: sampler}, self.config.seed, dev)

    def finish(self, model: TaggingModel) -> TaggingModel:
        settle(model, [self.sampler(model, TARGET, self.target.train, self.config.train)])
        return model
