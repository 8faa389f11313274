"""Kernels that need a GPU, and triton or a CUDA compiler: tried, and given up with one warning where they fail."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import torch


class GpuKernel:
    """A function of a module of which only a GPU has any use.

    Args:
        module: its full name; imported at the first call.
        instead: what happens without it, for the warning.
        function: its name.
    """

    def __init__(self, module: str, instead: str, function: str = "run") -> None:
        self.module, self.instead, self.function = module, instead, function
        self.failed = ""  # why it is out of use

    def __call__(self, *args: Any) -> Any:
        """What the kernel returns, which is never None; None where it cannot serve."""
        if self.failed:
            return None
        try:
            return getattr(import_module(self.module), self.function)(*args)
        except torch.OutOfMemoryError:  # as any other work may: the kernel is as good as before
            raise
        except ImportError as error:
            self.give_up(f"what it needs cannot be imported ({error})")
        except Exception as error:  # whatever compiler or driver raise, the work can go on without the kernel
            self.give_up(f"the GPU kernel failed ({type(error).__name__}: {error})")
        return None

    def give_up(self, why: str) -> None:
        self.failed = why
        warnings.warn(f"{self.instead}: {why}", RuntimeWarning, stacklevel=4)
