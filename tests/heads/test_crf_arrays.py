from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from nershift.data.labels import SCHEMES, LabelSpace, Scheme
from nershift.heads.crf import arrays as crf_arrays
from nershift.heads.crf.head import CRFHead
from nershift.heads.crf.kernels import viterbi


def _case(scheme: Scheme, seed: int = 0) -> tuple[CRFHead, torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    head = CRFHead(LabelSpace.of(["LOC", "PER"], scheme), 3)
    lengths = torch.tensor([7, 1, 4, 5])
    emissions = torch.randn(4, 7, len(head.space)) * 2.0
    return head, emissions, torch.arange(7) < lengths[:, None]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_best_paths_are_those_of_torch(scheme: Scheme) -> None:
    for seed in range(5):
        head, emissions, mask = _case(scheme, seed=seed)
        chain = head.chain()
        arrays = [x.detach().numpy() for x in chain]
        found = crf_arrays.viterbi(emissions.numpy(), *arrays, mask.numpy())
        assert found.tolist() == viterbi(emissions, *chain, mask)[0].tolist()


def test_best_path_by_enumeration() -> None:
    head, emissions, _ = _case("BIO")
    steps, starts, ends = (x.detach().numpy() for x in head.chain())
    one = emissions[:1, :4].numpy()

    def total(path: tuple[int, ...]) -> float:
        moved = sum(steps[a, b] for a, b in itertools.pairwise(path))
        return float(starts[path[0]] + ends[path[-1]] + moved + sum(one[0, t, c] for t, c in enumerate(path)))

    best = max(itertools.product(range(len(head.space)), repeat=4), key=total)
    found = crf_arrays.viterbi(one, steps, starts, ends, np.ones((1, 4), bool))
    assert tuple(found[0].tolist()) == best
