"""Adversarial training on word vectors: a second loss where they are moved uphill (FGM, Miyato et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class AdversarialEmbeddings:
    """Create it before the backward pass of a batch: gradients of earlier batches are subtracted.

    With several processes, each moves the words of its own share of the batch by its own gradient.
    """

    def __init__(self, tables: Iterable[nn.Parameter]) -> None:
        self.tables = [(p, None if p.grad is None else p.grad.clone()) for p in tables if p.requires_grad]

    @contextmanager
    def moved(self, length: float) -> Iterator[None]:
        """Within this block, each table is moved by ``length`` along its gradient, and then restored bit by bit.

        ``length`` is the norm of the whole move over all rows. No value is read back from the GPU, so that a step with
        it can be recorded.
        """
        places = list[tuple[nn.Parameter, Tensor]]()
        for p, earlier in self.tables:
            if p.grad is not None:
                places.append((p, p.detach().clone()))
                grad = p.grad if earlier is None else p.grad - earlier
                p.data.add_(grad * (length / (torch.linalg.vector_norm(grad) + 1e-12)))
        try:
            yield
        finally:
            for p, place in places:
                p.data.copy_(place)
