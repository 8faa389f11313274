"""Confidences of a CRF's entities: one forward-backward run, against one run for each entity.

    python benchmarks/confidences.py [--json FILE] [--seconds 3]

Batches of 128 sentences of 20 to 30 tokens with one or two entities each, as text has them.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

import torch
from common import Row, report, time_rivals

from nershift.data.labels import LabelSpace, Scheme
from nershift.data.spans import Span
from nershift.heads.crf.head import CRFHead
from nershift.heads.crf.spans import span_probabilities

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import ruled_out

CASES: tuple[tuple[Scheme, int], ...] = (("BIOES", 4), ("BIOES", 18), ("BIO", 4), ("IOB1", 4))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each case")
    options = parser.parse_args()
    rows = [measure(scheme, types, options.seconds) for scheme, types in CASES]
    report("confidences of 128 sentences", rows, "a run for each entity", out=options.json)


def measure(scheme: Scheme, types: int, seconds: float) -> Row:
    torch.manual_seed(0)
    chance, space = random.Random(0), LabelSpace.of([f"T{i}" for i in range(types)], scheme)
    lengths = torch.tensor([chance.randint(20, 30) for _ in range(128)])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    scores = [torch.randn(*mask.shape, len(space)), *(x.detach() for x in CRFHead(space, 1).chain())]
    spans = [[_span(chance, space, length) for _ in range(chance.choice((1, 2)))] for length in lengths.tolist()]
    arrays = [x.numpy() for x in (*scores, mask)]

    def plain() -> list[list[float]]:
        return ruled_out.span_probabilities(scores, mask, space, spans, fast=True)

    def ours() -> list[list[float]]:
        return span_probabilities(*arrays, space, spans)

    gaps = [abs(a - b) for one, other in zip(plain(), ours(), strict=True) for a, b in zip(one, other, strict=True)]
    times = time_rivals({"baseline": plain, "ours": ours}, seconds=seconds)
    return Row(f"{types} types, {scheme}", times["baseline"], times["ours"], max(gaps))


def _span(chance: random.Random, space: LabelSpace, length: int) -> Span:
    start = chance.randrange(length - 3)
    return Span(start, start + chance.randint(1, 3), chance.choice(space.types))


if __name__ == "__main__":
    main()
