"""LANER's head for all positions at once: equal results, several times faster. Optional, see README.md one level up.

Training and scoring run the label BiLSTM over all prefixes of a sentence together (:mod:`.all_prefixes`). Greedy
decoding guesses all tags and repeats that parallel pass until no tag changes (:mod:`.fixed_point`). The plain versions
in ``head.py`` are the oracles of the tests.
"""

from __future__ import annotations

from torch import Tensor

from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.chain import propagates_on_gpu
from nershift.methods.laner.fast.check import compare
from nershift.methods.laner.fast.fixed_point import fixed_point
from nershift.methods.laner.fast.graph_decoding import decode_by_graphs
from nershift.methods.laner.head import LabelAwareHead

__all__ = ["compare", "greedy", "log_probabilities"]


def log_probabilities(head: LabelAwareHead, states: Tensor, mask: Tensor, tags: Tensor) -> Tensor:
    """Of every tag at every position, given ``tags [B, L]`` before it: ``[B, L, C]``."""
    return AllPrefixes.read(head, states, mask).log_probabilities(tags)


def greedy(head: LabelAwareHead, states: Tensor, mask: Tensor) -> Tensor:
    """The tags of greedy decoding, ``[B, L]``, 0 under padding."""
    if states.is_cuda and propagates_on_gpu(states.dtype):
        tags = decode_by_graphs(head, states, mask)
        if tags is not None:
            return tags
    return fixed_point(head, states, mask).tags
