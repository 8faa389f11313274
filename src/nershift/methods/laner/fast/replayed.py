"""Greedy decoding on a GPU without launching its kernels one by one, for shapes of batches met before."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, proxy

import torch
from torch import Tensor, nn

from nershift.backend.cuda_graphs import cause, own_stream, record
from nershift.methods.laner.fast.chain import carries_on_gpu
from nershift.methods.laner.fast.search import Autoregressive, exact_pass, first_guess

_MOST = 16  # shapes that a head keeps recordings of
FEW = 16  # sentences: once no more are open, passes are over so many
_kept: WeakKeyDictionary[nn.Module, dict[Any, Replayed | None]] = WeakKeyDictionary()  # None: met once
_broken: list[str] = []  # why nothing is recorded any more, once it has failed


class Replayed:
    """:func:`~nershift.methods.laner.fast.search.fixed_point` of one shape: its exact passes, over whole batches.

    Rough passes before them would not pay: here they take as long.

    All it reads and writes stays in the same places: :meth:`begin`, :meth:`settle` and :meth:`settle_few` can be
    recorded.
    """

    begin_again: Callable[[], Any]
    settle_again: Callable[[], Any]
    settle_few_again: Callable[[], Any]
    passes = 0  # that the last call took: as many as its slowest sentence

    def __init__(self, tagger: Autoregressive, states: Tensor, mask: Tensor) -> None:
        self.tagger, self.states, self.mask = tagger, states.clone(), mask.clone()
        self.tags = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
        self.settled = torch.zeros(len(mask), dtype=torch.long, device=mask.device)
        self.left = torch.zeros((), dtype=torch.long, device=mask.device)  # sentences that are not settled

    def begin(self) -> None:
        self.reading = self.tagger.read(self.states, self.mask)
        self.chain = self.tagger.chain(self.reading)
        self.tags.copy_(first_guess(self.tagger, self.chain, self.mask))
        self.settled.zero_()

    def settle(self) -> None:
        """One exact pass: every sentence is settled up to the first tag that changes."""
        found, places = exact_pass(self.tagger, self.reading, self.chain, self.tags, self.settled)
        self.tags.copy_(found)
        self.settled.copy_(places)
        self._count()

    def settle_few(self) -> None:
        """The same for up to ``FEW`` open sentences alone."""
        rows = self._open().int().topk(min(FEW, len(self.mask))).indices.sort().values
        length = self.mask.shape[1]
        part, linked = self.reading.of(rows, length), self.chain.of(rows, length)
        found, places = exact_pass(self.tagger, part, linked, self.tags[rows], self.settled[rows])
        self.tags[rows], self.settled[rows] = found, places
        self._count()

    def _open(self) -> Tensor:
        return self.settled < self.mask.sum(1)

    def _count(self) -> None:
        self.left.copy_(self._open().sum())

    def record(self) -> None:
        with own_stream(self.mask.device) as pool:
            parts = (self.begin, self.settle, self.settle_few)
            for part in parts:
                part()  # what has to be compiled or planned is, before it is recorded
            if not carries_on_gpu(self.states.dtype):  # known since then, and a recording would end badly
                raise RuntimeError("the CPU has a part in it")
            self.begin_again, self.settle_again, self.settle_few_again = (record(p, pool)[0] for p in parts)

    def __call__(self, states: Tensor, mask: Tensor) -> Tensor:
        self.states.copy_(states)
        self.mask.copy_(mask)
        self.begin_again()
        self.settle_again()
        self.passes = 1
        while left := int(self.left):
            (self.settle_few_again if left <= FEW else self.settle_again)()
            self.passes += 1
        return self.tags.clone()


@torch.no_grad()
def replayed(head: nn.Module, states: Tensor, mask: Tensor, make: type[Replayed] = Replayed) -> Tensor | None:
    """Tags ``[B, L]``; None for a shape that has not been met before."""
    takes = _kept.setdefault(head, {})
    # Weights that change in place keep their recordings, weights in new places do not.
    where = tuple(p.data_ptr() for p in head.parameters())
    key = (states.shape, states.dtype, where)
    if _broken or key not in takes:
        if len(takes) < _MOST:
            takes[key] = None
        return None
    take = takes[key]
    if take is None:
        take = make(proxy(head), states, mask)  # what is kept must not keep the head alive
        try:
            take.record()
        except RuntimeError as error:
            _broken.append(cause(error))
            warnings.warn(f"decoding is not recorded, which is slower: {_broken[0]}", RuntimeWarning, stacklevel=2)
            return None
        takes[key] = take
    with torch.cuda.device_of(states):
        return take(states, mask)
