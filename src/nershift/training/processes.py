"""Devices and processes, through accelerate: one process or many give the same weights."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Sequence
from types import FrameType

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from torch import nn

from nershift.backend.device import find_device
from nershift.config import EncoderConfig
from nershift.encoders.base import ENCODERS


def threads_for(encoder: EncoderConfig) -> int:
    """An encoder that reads one token after the other gains nothing from a second thread.

    It loses much where other programs compute: two threads wait for each other at every token.
    """
    return 1 if ENCODERS[encoder.kind].cost(encoder).sequential else os.cpu_count() or 1


class Processes:
    """Where a run computes. It also catches Ctrl-C and SIGTERM, so that the loop can stop between two steps.

    Args:
        threads: on a CPU at most so many, unless OMP_NUM_THREADS says how many; 0: as many as there are.
    """

    def __init__(self, device: str = "auto", threads: int = 0) -> None:
        if device != "auto":
            find_device(device)
        self.accelerator = _accelerator(cpu=device == "cpu")
        self.device = self.accelerator.device
        self.rank, self.world = self.accelerator.process_index, self.accelerator.num_processes
        self.main = self.accelerator.is_main_process
        self._stop = False
        self._old: dict[int, object] = {}
        fewer = threads and self.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ
        self._threads_before = torch.get_num_threads()
        self._threads = min(threads, self._threads_before) if fewer else self._threads_before

    def __enter__(self) -> Processes:
        torch.set_num_threads(self._threads)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, self._note_stop)
        return self

    def __exit__(self, *error: object) -> None:
        torch.set_num_threads(self._threads_before)
        for number, handler in self._old.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        self._old = {}

    def _note_stop(self, number: int, frame: FrameType | None) -> None:
        if self._stop:  # the second time: stop at once
            raise KeyboardInterrupt
        self._stop = True

    def stop_asked(self) -> bool:
        return self._stop

    def any_of(self, *facts: bool) -> list[bool]:
        """Each fact, true if it holds in any process: clocks and signals differ, decisions must not."""
        if self.world == 1:
            return list(facts)
        flags = torch.tensor([float(fact) for fact in facts], device=self.device)
        return [count > 0 for count in self.accelerator.reduce(flags, "sum").tolist()]

    def wait(self) -> None:
        self.accelerator.wait_for_everyone()

    def average_gradients(self, parameters: Sequence[nn.Parameter], sentences: int) -> None:
        """Gradients of the joint batch: the processes' means, weighted by their numbers of sentences."""
        if self.world == 1:
            return
        count = torch.tensor([float(sentences)], device=self.device)
        share = sentences / self.accelerator.reduce(count, "sum").item()
        grads = [p.grad for p in parameters if p.grad is not None]
        joint = self.accelerator.reduce(torch.cat([g.flatten() for g in grads]) * share, "sum")
        for grad, part in zip(grads, joint.split([g.numel() for g in grads]), strict=True):
            grad.copy_(part.view_as(grad))


def _accelerator(cpu: bool) -> Accelerator:
    """accelerate keeps one state per process; a run on another device in the same process resets it."""
    try:
        return Accelerator(cpu=cpu)
    except ValueError:
        AcceleratorState._reset_state(reset_partial_state=True)
        return Accelerator(cpu=cpu)
