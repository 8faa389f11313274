"""Optimisers and learning-rate schedules by name. The rate is a function of the step and is never saved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from nershift.config import TrainConfig
from nershift.model import TaggingModel
from nershift.training.budget import Budget

BETAS, EPS = (0.9, 0.999), 1e-6  # of BertAdam
RECORDED = ("adam", "adamw", "rmsprop")  # optimisers whose steps can be recorded


def make_optimizer(config: TrainConfig, model: TaggingModel, recorded: bool = False) -> torch.optim.Optimizer:
    """One optimiser over three groups: word vectors, the rest of the encoder, everything else.

    Word vectors have no weight decay: it would shrink rows that a batch does not contain. Rates that the model has
    learned multiply those of the settings.
    ``recorded``: rates are tensors on the GPU, where a recorded step reads them.
    """
    words = {id(p) for p in model.encoder.word_parameters()}
    encoder = {id(p) for p in model.encoder.parameters()} - words
    groups: dict[str, list[nn.Parameter]] = {"words": [], "encoder": [], "rest": []}
    for p in model.parameters():
        if p.requires_grad:
            groups["words" if id(p) in words else "encoder" if id(p) in encoder else "rest"].append(p)
    encoder_lr = config.lr if config.encoder_lr is None else config.encoder_lr
    rates = {
        "words": encoder_lr if config.words_lr is None else config.words_lr,
        "encoder": encoder_lr,
        "rest": config.lr,
    }
    settings = [
        {
            "params": ps,
            "lr": torch.tensor(rates[g], device=model.device) if recorded else rates[g],
            "base_lr": rates[g],
            "weight_decay": 0.0 if g == "words" else config.weight_decay,
        }
        for g, ps in groups.items()
        if ps
    ]
    optimizer = _optimizer(config, settings, recorded)
    scale_rates(optimizer, model.rate_factors())
    return optimizer


def _optimizer(config: TrainConfig, settings: list[dict[str, Any]], recorded: bool) -> torch.optim.Optimizer:
    fused = all(p.device.type in ("cpu", "cuda") for group in settings for p in group["params"])
    if config.optimizer == "adam":
        return torch.optim.Adam(settings, fused=fused, capturable=recorded)
    if config.optimizer == "adamw":
        return torch.optim.AdamW(settings, fused=fused, capturable=recorded)
    if config.optimizer == "bertadam":
        return BertAdam(settings)
    if config.optimizer == "sgd":
        return torch.optim.SGD(settings, momentum=config.momentum, fused=fused)
    return torch.optim.RMSprop(settings, capturable=recorded)


def rate_factor(config: TrainConfig, step: int, budget: Budget) -> float:
    """The factor on the base learning rate at ``step``.

    Example:
        >>> config = TrainConfig(schedule="inverse", lr_decay=0.5, epochs=10)
        >>> rate_factor(config, 20, Budget.of(config, steps_per_epoch=10))
        0.5
    """
    warm = config.warmup * budget.total
    if step < warm:
        return (step + 1) / (warm + 1)
    if config.schedule == "linear":
        return max(0.0, (budget.total - step) / max(1.0, budget.total - warm))
    if config.schedule == "inverse":
        return 1 / (1 + config.lr_decay * budget.decay_units(step))
    return 1.0


def set_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    for group in optimizer.param_groups:
        rate = group["base_lr"] * factor
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
        elif group.get("last_lr") != rate:
            group["lr"].fill_(rate)
            group["last_lr"] = rate


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimiser's moments as flat tensors; its rates come from the config."""
    state = optimizer.state_dict()["state"]
    return {f"{i}/{k}": torch.as_tensor(v) for i, values in state.items() for k, v in values.items() if v is not None}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        index, _, key = name.partition("/")
        state.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


class BertAdam(torch.optim.Optimizer):
    """Adam as the first BERT releases had it: no bias correction, decoupled decay, each tensor clipped by itself.

    Its first step is about 3.16 times the rate, where Adam's is once the rate.

    Args:
        weight_decay: of matrices; biases and norms, which are vectors, have none.
        clip: largest gradient norm of one tensor; 0: no limit.
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
    """The factor on a gradient of this norm, as in ``clip_grad_norm_``."""
    return (clip / (norm + 1e-6)).clamp(max=1.0) if clip else torch.ones_like(norm)


def scale_rates(optimizer: torch.optim.Optimizer, factors: Mapping[nn.Parameter, float]) -> None:
    """Multiply the learning rates of some parameters. Groups are split for it, before the first step."""
    groups = list[dict[str, object]]()
    for group in optimizer.param_groups:
        parts: dict[float, list[nn.Parameter]] = {}
        for p in group["params"]:
            parts.setdefault(factors.get(p, 1.0), []).append(p)
        groups += [
            group | {"params": params, "lr": group["lr"] * factor, "base_lr": group["base_lr"] * factor}
            for factor, params in parts.items()
        ]
    optimizer.param_groups = groups
