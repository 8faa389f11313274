"""Which attention kernels a transformer encoder uses."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def steady_kernels(x: Tensor) -> AbstractContextManager[Any]:
    """While it lasts, attention on ``x``'s device runs by kernels that serve every shape of batch.

    cuDNN's, which torch prefers on some GPUs, are planned anew for each number of sentences and sub-words: with
    batches of text nearly every step meets a new one, and planning takes longer than the step.
    """
    return sdpa_kernel(_KERNELS) if x.is_cuda else nullcontext()
