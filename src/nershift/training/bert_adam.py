"""Adam as the first BERT releases had it: no bias correction, decoupled decay, each tensor clipped by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

BETAS, EPS = (0.9, 0.999), 1e-6


class BertAdam(torch.optim.Optimizer):
    """From zero moments its first step is about 3.16 rates long, where Adam's is one.

    Args:
        decay: pulls matrices towards zero; biases and norms, which are vectors, are left alone.
        clip: largest gradient norm of one tensor; 0: any.
    """

    def __init__(self, params: Iterable[Any], lr: float = 3e-5, weight_decay: float = 0.01, clip: float = 1.0) -> None:
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "clip": clip})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                grad = p.grad * clip_factor(p.grad.norm(), group["clip"])
                mean = state["exp_avg"].mul_(BETAS[0]).add_(grad, alpha=1 - BETAS[0])
                square = state["exp_avg_sq"].mul_(BETAS[1]).addcmul_(grad, grad, value=1 - BETAS[1])
                change = mean / (square.sqrt() + EPS)
                if group["weight_decay"] and p.ndim > 1:
                    change.add_(p, alpha=group["weight_decay"])
                p.add_(change, alpha=-group["lr"])


def clip_factor(norm: Tensor, clip: float) -> Tensor:
    """What a gradient of this norm is multiplied by, as ``clip_grad_norm_`` has it."""
    return (clip / (norm + 1e-6)).clamp(max=1.0) if clip else torch.ones_like(norm)
