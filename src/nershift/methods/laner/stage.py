"""Training on sources that annotate different types, with one head for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from nershift.methods.laner.head import LabelAwareHead
from nershift.model import Batch
from nershift.training.stage import MixedStage


class OwnTypesStage(MixedStage):
    """A sentence learns to choose among the types of its own corpus.

    A politician is a person where nobody annotates politicians. With one softmax over the types of all corpora, such a
    corpus teaches that `politician` is wrong; here it says nothing about types that it does not annotate.

    Args:
        head: the one that all samplers train.
        types: those of each sampler's corpus.
    """

    cuda_graph_safe = True

    def __init__(self, *args: Any, head: LabelAwareHead, types: Mapping[str, Iterable[str]], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._head, self._tags = head, {name: head.tags_of(own) for name, own in types.items()}

    def loss(self, batches: Mapping[str, Batch]) -> Tensor:
        losses = []
        for name, batch in batches.items():
            # Moved once: steps are recorded for each corpus apart, and the first of each is not recorded.
            tags = self._tags[name] = self._tags[name].to(self.model.device)
            with self._head.choosing_among(tags):
                losses.append(self.model(batch))
        return torch.stack(losses).sum()
