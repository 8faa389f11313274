"""How a transformer's attention runs on a GPU: which kernels it uses and where positions are computed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

_KERNELS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]


def steady_kernels(x: Tensor) -> AbstractContextManager[Any]:
    """Within this block, attention on ``x``'s device uses kernels that serve every batch shape.

    torch prefers cuDNN's on some GPUs, which are planned for each number of sentences and sub-words. Nearly every
    batch of text has a new shape, and planning takes longer than the step.
    """
    return sdpa_kernel(_KERNELS) if x.is_cuda else nullcontext()


def padding(model: Any, mask: Tensor) -> Tensor:
    """The attention mask to hand to the model, from ``mask [N, S]``.

    That is the mask itself. While a step with eager attention is recorded, it is the bias ``[N, 1, 1, S]`` added to the
    scores: some versions of transformers compute that bias with a number from the CPU, which cannot be recorded.
    """
    eager = getattr(model.config, "_attn_implementation", "") == "eager"
    return _added(mask, model.dtype) if eager and _recording() and not _adds_by_itself(model) else mask


def _adds_by_itself(model: nn.Module) -> bool:
    """Whether the model makes the bias by arithmetic that can be recorded; then it refuses one that is made already."""
    return "get_extended_attention_mask" in inspect.unwrap(type(model).forward).__code__.co_names


def _recording() -> bool:
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def _added(mask: Tensor, dtype: torch.dtype) -> Tensor:
    return (1.0 - mask[:, None, None].to(dtype)) * torch.finfo(dtype).min


def positions_where_the_weights_are(model: nn.Module) -> None:
    """Let MPNet compute its relative positions on the GPU.

    Some versions of transformers compute them on the CPU and copy them in every step, which cannot be recorded.
    """
    for module in model.modules():
        bias, count = (getattr(module, name, None) for name in ("relative_attention_bias", "relative_position_bucket"))
        if isinstance(bias, nn.Embedding) and callable(count):
            setattr(module, "relative_position_bucket", partial(_buckets, bias, count))  # noqa: B010 - not a weight


def _buckets(bias: nn.Embedding, count: Callable[..., Tensor], positions: Tensor, **settings: int) -> Tensor:
    """``count(positions)``; ``positions [rows, columns]`` are column minus row."""
    device = bias.weight.device
    if positions.device != device:
        rows, columns = positions.shape
        positions = torch.arange(columns, device=device) - torch.arange(rows, device=device)[:, None]
    return count(positions, **settings)
