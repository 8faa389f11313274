"""How attention of a transformer encoder runs on a GPU: by which kernels, with positions counted where."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def steady_kernels(x: Tensor) -> AbstractContextManager[Any]:
    """While it lasts, attention on ``x``'s device runs by kernels that serve every shape of batch.

    cuDNN's, which torch prefers on some GPUs, are planned anew for each number of sentences and sub-words: with
    batches of text nearly every step meets a new one, and planning takes longer than the step.
    """
    return sdpa_kernel(_KERNELS) if x.is_cuda else nullcontext()


def padding(model: Any, mask: Tensor) -> Tensor:
    """What the model is told of padding, given ``mask [N, S]``: the mask itself or, for attention without a kernel of
    its own in a step that is being recorded, what is to be added to the scores ``[N, 1, 1, S]``.

    Versions of transformers that make the latter with a number from the CPU cannot be recorded.
    """
    eager = getattr(model.config, "_attn_implementation", "") == "eager"
    return _added(mask, model.dtype) if eager and _recording() else mask


def _recording() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return (1.0 - mask[:, None, None].to(dtype)) * torch.finfo(dtype).min


def positions_where_the_weights_are(model: nn.Module) -> None:
    """Let MPNet count its relative positions on the GPU.

    Versions of transformers that count them on the CPU copy them in every step, and such a step cannot be recorded.
    """
    for module in model.modules():
        bias, count = (getattr(module, name, None) for name in ("relative_attention_bias", "relative_position_bucket"))
        if isinstance(bias, nn.Embedding) and callable(count):
            setattr(module, "relative_position_bucket", partial(_buckets, bias, count))  # noqa: B010 - not a weight


def _buckets(bias: nn.Embedding, count: Callable[..., Tensor], positions: Tensor, **settings: int) -> Tensor:
    """``count`` of positions ``[rows, columns]``, each its column minus its row."""
    device = bias.weight.device
    if positions.device != device:
        rows, columns = positions.shape
        positions = torch.arange(columns, device=device) - torch.arange(rows, device=device)[:, None]
    return count(positions, **settings)
