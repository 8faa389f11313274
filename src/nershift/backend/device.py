"""The device that a name stands for."""

from __future__ import annotations

import torch

from nershift.errors import ConfigError


def find_device(name: str) -> torch.device:
    """Refused where there is none, before anything is read."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"found '{name}'", place="device", expected="cpu | cuda | mps")
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= there[device.type]:
        number = f"{device.index} " if device.index else ""
        raise ConfigError(f"no {device.type.upper()} device {number}was found", place="device", fix="use cpu")
    return device
