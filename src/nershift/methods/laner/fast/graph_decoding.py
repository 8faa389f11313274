"""Greedy decoding on a GPU by CUDA graphs: one for each shape of a batch, captured when the shape comes again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary, proxy

import torch
from torch import Tensor, nn

from nershift.backend.cuda_graphs import cause, own_stream, record
from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.chain import Chain, propagates_on_gpu
from nershift.methods.laner.fast.fixed_point import first_guess, parallel_pass
from nershift.methods.laner.head import LabelAwareHead

MAX_SHAPES = 16  # graphs kept for a head
FEW = 16  # sentences: once no more are open, passes run over so many
_kept: WeakKeyDictionary[nn.Module, dict[Any, GraphDecoder | None]] = WeakKeyDictionary()  # None: shape seen once
_broken: list[str] = []  # why capturing has failed; nothing is captured after that


class GraphDecoder:
    """:func:`~nershift.methods.laner.fast.fixed_point.fixed_point` for one shape, its passes over whole batches.

    Everything it reads and writes stays at the same addresses, so that :meth:`begin`, :meth:`settle` and
    :meth:`settle_few` can be captured.
    """

    replay_begin: Callable[[], Any]
    replay_settle: Callable[[], Any]
    replay_settle_few: Callable[[], Any]
    passes = 0  # of the last call: as many as its slowest sentence needed

    def __init__(self, head: LabelAwareHead, states: Tensor, mask: Tensor) -> None:
        self.head, self.states, self.mask = head, states.clone(), mask.clone()
        self.tags = torch.zeros(mask.shape, dtype=torch.long, device=mask.device)
        self.settled = torch.zeros(len(mask), dtype=torch.long, device=mask.device)
        self.left = torch.zeros((), dtype=torch.long, device=mask.device)  # sentences that are still open

    def begin(self) -> None:
        self.batch = AllPrefixes.read(self.head, self.states, self.mask)
        self.chain = Chain.of(self.batch)
        self.tags.copy_(first_guess(self.batch, self.chain))
        self.settled.zero_()

    def settle(self) -> None:
        """One parallel pass: every sentence is settled up to the first tag that changes."""
        tags, places = parallel_pass(self.batch, self.chain, self.tags, self.settled)
        self.tags.copy_(tags)
        self.settled.copy_(places)
        self._count()

    def settle_few(self) -> None:
        """The same for up to ``FEW`` open sentences alone."""
        rows = self._open().int().topk(min(FEW, len(self.mask))).indices.sort().values
        length = self.mask.shape[1]
        part = self.batch.select(rows, length), self.chain.select(rows, length)
        self.tags[rows], self.settled[rows] = parallel_pass(*part, self.tags[rows], self.settled[rows])
        self._count()

    def _open(self) -> Tensor:
        return self.settled < self.mask.sum(1)

    def _count(self) -> None:
        self.left.copy_(self._open().sum())

    def capture(self) -> None:
        with own_stream(self.mask.device) as pool:
            parts = (self.begin, self.settle, self.settle_few)
            for part in parts:
                part()  # compiles and plans whatever needs it, before capturing
            if not propagates_on_gpu(self.states.dtype):  # known only now; capturing would fail badly
                raise RuntimeError("the CPU takes part in it")
            self.replay_begin, self.replay_settle, self.replay_settle_few = (record(p, pool)[0] for p in parts)

    def __call__(self, states: Tensor, mask: Tensor) -> Tensor:
        self.states.copy_(states)
        self.mask.copy_(mask)
        self.replay_begin()
        self.replay_settle()
        self.passes = 1
        while left := int(self.left):
            (self.replay_settle_few if left <= FEW else self.replay_settle)()
            self.passes += 1
        return self.tags.clone()


@torch.no_grad()
def decode_by_graphs(
    head: LabelAwareHead, states: Tensor, mask: Tensor, make: type[GraphDecoder] = GraphDecoder
) -> Tensor | None:
    """Tags ``[B, L]``; None for a shape that has not been seen before."""
    decoders = _kept.setdefault(head, {})
    # Weights that change in place keep their graphs; weights at new addresses do not.
    addresses = tuple(p.data_ptr() for p in head.parameters())
    key = (states.shape, states.dtype, addresses)
    if _broken or key not in decoders:
        if len(decoders) < MAX_SHAPES:
            decoders[key] = None
        return None
    decoder = decoders[key]
    if decoder is None:
        view: Any = proxy(head)  # what is kept must not keep the head alive
        decoder = make(view, states, mask)
        try:
            decoder.capture()
        except RuntimeError as error:
            _broken.append(cause(error))
            warnings.warn(f"decoding runs without CUDA graphs, which is slower: {_broken[0]}", RuntimeWarning, 2)
            return None
        decoders[key] = decoder
    with torch.cuda.device_of(states):
        return decoder(states, mask)
