"""Word vectors moved for a moment to where the loss is higher (adversarial training, Miyato et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class AdversarialEmbeddings:
    """Made before the backward pass of a batch, so that what earlier batches left in ``.grad`` has no say.

    Of several processes each moves the words of its own share of a batch, by its own gradient.
    """

    def __init__(self, tables: Iterable[nn.Parameter]) -> None:
        self.tables = [(p, None if p.grad is None else p.grad.clone()) for p in tables if p.requires_grad]

    @contextmanager
    def moved(self, length: float) -> Iterator[None]:
        """Within, each table lies ``length`` along its gradient; afterwards it is, to the bit, where it was.

        The length is that of the whole step, over all rows: a batch's words share it by how much each matters.
        Nothing asks for a value on the GPU, so that a step with it can be recorded.
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
