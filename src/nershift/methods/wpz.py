"""Prototypes of single tokens: few-shot classification in which a tag is the mean of its tokens' states."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from nershift.config import merge
from nershift.data.labels import LabelSpace
from nershift.methods.base import TARGET, Method
from nershift.methods.settings import METANER
from nershift.nn.decoders import Decoder, make_decoder
from nershift.nn.model import TaggingModel
from nershift.nn.prototypes import PrototypeDecoder
from nershift.train.feed import Feed
from nershift.train.phase import MixedPhase, Phase
from nershift.train.seeding import seed_torch

_PRESETS = {"paper": merge(METANER, {"decoder": {"kind": "softmax", "scheme": "BIO"}})}


class _SourceEpisodes(MixedPhase):
    def validate(self) -> float | None:
        settle(self.model, list(self.feeds.values()))
        return super().validate()


class _TargetEpisodes(Phase):
    def validate(self) -> float | None:
        settle(self.model, list(self.feeds.values()))
        return super().validate()


def settle(model: TaggingModel, feeds: list[Feed]) -> None:
    """Fix the prototypes of each decoder to the means over all sentences of its feeds."""

    def support(key: str) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        for feed in feeds:
            for k in range(feed.per_epoch if feed.key == key else 0):
                batch = feed.as_labelled(feed.indices(k))
                assert batch.tags is not None
                yield model.states(batch), batch.mask, batch.tags

    was_training = model.training
    model.eval()
    with torch.no_grad():
        for key, decoder in model.named_decoders():
            if isinstance(decoder, PrototypeDecoder):
                decoder.settle(support(key))
    model.train(was_training)


class Wpz(Method):
    """Each batch is an episode: one half of it is told from the prototypes of the other.

    Prototypes need tokens, and the parts of BIOES names are rare in few labels; hence BIO tags.
    """

    name = "wpz"
    summary = "prototypes of single tokens, learned in episodes on the sources, then on the target"
    paper = "MetaNER §5.1.1 (WPZ; Fritzler et al. 2019)"
    presets = _PRESETS
    min_sources = 1

    def new_decoder(self, space: LabelSpace, size: int, key: str) -> Decoder:
        seed_torch(self.config.seed, "decoder", key)
        return make_decoder("prototypes", space, size)

    def pretrain(self) -> Phase:
        model, config = self.source_model(), self.config.pretrain
        feeds = self.source_feeds(model, config)
        return _SourceEpisodes("pretrain", model, config, feeds, self.config.seed, self.source_dev())

    def prepare_target(self, start: TaggingModel | None) -> TaggingModel:
        """A new decoder starts from what the sources' decoders have learned of ``O``."""
        before = start.named_decoders() if start is not None else []
        found = [d.outside.detach() for _, d in before if isinstance(d, PrototypeDecoder)]
        model = super().prepare_target(start)
        decoder = model.decoder(TARGET)
        if found and isinstance(decoder, PrototypeDecoder):
            with torch.no_grad():
                decoder.outside.copy_(torch.stack(found).mean(0))
        return model

    def train(self, start: TaggingModel | None) -> Phase:
        model, config = self.prepare_target(start), self.config.train
        feed = self.feed(model, TARGET, self.target.train, config)
        dev = [(TARGET, self.target.splits.get("dev", ()))]
        return _TargetEpisodes("train", model, config, {TARGET: feed}, self.config.seed, dev)

    def finish(self, model: TaggingModel) -> TaggingModel:
        settle(model, [self.feed(model, TARGET, self.target.train, self.config.train)])
        return model
