"""What a checkpoint holds: the parameters that training changes and the optimiser's moments."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from nershift.errors import CheckpointError


def trainable(model: nn.Module) -> dict[str, Tensor]:
    """The parameters that training can change; the rest is rebuilt from config and data."""
    return {name: p.detach() for name, p in model.named_parameters() if p.requires_grad}


@torch.no_grad()
def restore(model: nn.Module, tensors: Mapping[str, Tensor], place: str) -> None:
    """Copy saved values into the parameters they were saved from; names and shapes must agree."""
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if set(parameters) != set(tensors):
        odd = sorted(set(parameters) ^ set(tensors))
        raise CheckpointError(
            f"its parameters differ from the model's, e.g. {odd[0]}",
            place=place,
            fix="resume with the same data and settings, or choose another --out",
        )
    for name, value in tensors.items():
        if parameters[name].shape != value.shape:
            raise CheckpointError(
                f"{name} has shape {tuple(value.shape)}",
                place=place,
                expected=f"{tuple(parameters[name].shape)}",
                fix="resume with the same data and settings, or choose another --out",
            )
        parameters[name].copy_(value)


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
