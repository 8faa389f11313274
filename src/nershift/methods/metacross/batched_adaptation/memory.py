"""How many tasks fit into memory at once."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from nershift.methods.metacross.inner_update import StepRule, trained_parameters

_LARGE_TABLE = 20_000  # rows: of such a table only those that occur are held


def task_bytes(model: nn.Module, rule: StepRule, positions: int, precision: Literal["fp32", "bf16"] = "fp32") -> int:
    """About what one task with so many support positions holds."""
    shapes = [p.shape for p in trained_parameters(model) if p.ndim == 2 and len(p) < _LARGE_TABLE]
    held = sum(sum(shape) for shape in shapes) * positions * 2
    formed = 0 if rule.low_rank else 4 * max(shape[0] * shape[1] for shape in shapes)
    return (4 if precision == "fp32" else 2) * (held + formed)


def is_out_of_memory(error: RuntimeError) -> bool:
    """Is it what CUDA or the CPU raises when memory is short?"""
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
