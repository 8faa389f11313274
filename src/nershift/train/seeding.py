"""Randomness as a function of names: what a step draws depends on (seed, phase, step), not on what ran.

That is why a run that was killed and resumed ends with the very weights of one that was not.
"""

from __future__ import annotations

import hashlib
import random

import torch


def number(*parts: object) -> int:
    """A 63-bit number from any parts, the same on every machine."""
    return int.from_bytes(hashlib.sha256("/".join(map(str, parts)).encode()).digest()[:8], "big") >> 1


def seed_torch(*parts: object) -> None:
    torch.manual_seed(number(*parts))


def generator(*parts: object) -> random.Random:
    return random.Random(number(*parts))
