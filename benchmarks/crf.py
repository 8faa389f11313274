"""Forward and backward of the CRF loss against pytorch-crf, in the same run, with equal results shown.

    python benchmarks/crf.py [--device cuda] [--json FILE] [--seconds 3]

Needs pytorch-crf (``pip install pytorch-crf``). For two CPU cores set ``OMP_NUM_THREADS=2``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from common import Row, report, time_rivals
from torch import Tensor

from nershift.heads.crf.kernels import negative_log_likelihood, viterbi

try:
    from torchcrf import CRF
except ImportError:
    sys.exit("the baseline is missing: pip install pytorch-crf, or put its folder on PYTHONPATH")

BATCH, LENGTH = 32, 40


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each case")
    options = parser.parse_args()
    cases = [(tags, ragged) for tags in (17, 73) for ragged in (False, True)]
    rows = [measure(tags, ragged, options.device, options.seconds) for tags, ragged in cases]
    title = f"CRF loss, forward + backward, batch {BATCH}, length {LENGTH}"
    report(title, rows, "pytorch-crf", options.device, options.json)


def measure(size: int, ragged: bool, device: str, seconds: float) -> Row:
    torch.manual_seed(0)
    model = CRF(size, batch_first=True).to(device)
    lengths = torch.randint(5, LENGTH + 1, (BATCH,)) if ragged else torch.full((BATCH,), LENGTH)
    lengths[0] = LENGTH
    mask = (torch.arange(LENGTH) < lengths[:, None]).to(device)
    emissions = torch.randn(BATCH, LENGTH, size, device=device, requires_grad=True)
    tags = torch.randint(0, size, (BATCH, LENGTH), device=device)
    chain = (model.transitions, model.start_transitions, model.end_transitions)
    leaves = (emissions, *chain)

    def baseline() -> Tensor:
        loss = -model(emissions, tags, mask, reduction="mean")
        loss.backward()
        return loss

    def ours() -> Tensor:
        loss = negative_log_likelihood(emissions, tags, *chain, mask).mean()
        loss.backward()
        return loss

    def results(run: Callable[[], Tensor]) -> list[Tensor]:
        for leaf in leaves:
            leaf.grad = None
        return [run().detach(), *(leaf.grad.clone() for leaf in leaves if leaf.grad is not None)]

    difference = max(float((a - b).abs().max()) for a, b in zip(results(baseline), results(ours), strict=True))
    times = time_rivals({"baseline": baseline, "ours": ours}, device, seconds)
    decode = time_rivals(
        {"baseline": lambda: model.decode(emissions, mask), "ours": lambda: viterbi(emissions, *chain, mask)},
        device,
        seconds / 3,
        warm_up=2,
    )
    extra = {"Viterbi, ms": decode["ours"], "Viterbi ratio": decode["baseline"] / decode["ours"]}
    name = f"{size} tags, {'ragged' if ragged else 'full'}"
    return Row(name, times["baseline"], times["ours"], difference, {**extra})


if __name__ == "__main__":
    main()
