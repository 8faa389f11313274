"""Where and how tensors are computed: the device, optional GPU kernels, and gradients beyond torch's defaults."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import embedding

from nershift.errors import ConfigError

_twice: ContextVar[bool] = ContextVar("nershift_double_backward", default=False)


def find_device(name: str) -> torch.device:
    """The device called ``name``; a ConfigError if there is no such device."""
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda", "mps"):
        raise ConfigError(f"found '{name}'", place="device", expected="cpu | cuda | mps")
    counts = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if (device.index or 0) >= counts[device.type]:
        number = f"{device.index} " if device.index else ""
        raise ConfigError(f"no {device.type.upper()} device {number}was found", place="device", fix="use cpu")
    return device


class GpuKernel:
    """A kernel that is optional: tried on a GPU, and dropped with one warning if it fails.

    Args:
        module: its full name; imported at the first call.
        instead: what happens without it, for the warning.
        function: its name in the module.
    """

    def __init__(self, module: str, instead: str, function: str = "run") -> None:
        self.module, self.instead, self.function = module, instead, function
        self.failed = ""  # why it was dropped

    def __call__(self, *args: Any) -> Any:
        """The kernel's result, which is never None; None if the kernel cannot be used."""
        if self.failed:
            return None
        try:
            return getattr(import_module(self.module), self.function)(*args)
        except torch.OutOfMemoryError:  # may happen to any work: the kernel itself is fine
            raise
        except ImportError as error:
            self.give_up(f"its requirements cannot be imported ({error})")
        except Exception as error:  # whatever a compiler or driver raises: the work goes on without the kernel
            self.give_up(f"the GPU kernel failed ({type(error).__name__}: {error})")
        return None

    def give_up(self, why: str) -> None:
        self.failed = why
        warnings.warn(f"{self.instead}: {why}", RuntimeWarning, stacklevel=4)


def look_up(table: Tensor, where: Tensor) -> Tensor:
    """``table[where]``: from ``[U, …]`` and numbers ``[B, L]`` to ``[B, L, …]``.

    On a GPU, the gradient of plain indexing adds up equal rows one after the other, and padding makes thousands of
    positions share one row. That of an embedding adds them in parallel, and is faster on a CPU too.
    """
    return embedding(where, table.flatten(1)).unflatten(-1, table.shape[1:])


@contextmanager
def double_backward() -> Iterator[None]:
    """Within this block, fast paths without a second derivative (CRF, characters) are replaced by plain ones."""
    token = _twice.set(True)
    try:
        yield
    finally:
        _twice.reset(token)


def double_backward_wanted() -> bool:
    return _twice.get()
