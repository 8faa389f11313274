"""Word vectors moved for a moment to where the loss is higher (adversarial training, Miyato et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def moved_words(tables: Iterable[nn.Parameter], length: float) -> Iterator[None]:
    """Within, each table lies ``length`` along its gradient; afterwards it is, to the bit, where it was.

    The length is that of the whole step, over all rows: a batch's words share it by how much each matters. Nothing
    asks for a value on the GPU, so that a step with it can be recorded.
    """
    moved = [(p, p.detach().clone()) for p in tables if p.grad is not None]
    for p, _ in moved:
        assert p.grad is not None
        p.data.add_(p.grad * (length / (torch.linalg.vector_norm(p.grad) + 1e-12)))
    try:
        yield
    finally:
        for p, before in moved:
            p.data.copy_(before)
