"""Greedy decoding by recordings against the search that it repeats."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from nershift.data.labels import LabelSpace
from nershift.methods.laner.fast import chain
from nershift.methods.laner.fast import replayed as module
from nershift.methods.laner.fast.chain import Chain, carries_on_gpu
from nershift.methods.laner.fast.replayed import Replayed, replayed
from nershift.methods.laner.fast.search import Autoregressive, Reading, exact_pass, fixed_point
from nershift.methods.laner.head import LabelAwareHead

SPACE = LabelSpace.of(["A", "B", "C"], "BIO")
LENGTHS = torch.tensor([11, 4, 1, 7])


class Rerun(Replayed):
    """Where there is no GPU: a recording runs anew."""

    def record(self) -> None:
        self.begin_again, self.settle_again, self.settle_few_again = self.begin, self.settle, self.settle_few


def made(seed: int = 0, device: str = "cpu") -> LabelAwareHead:
    """Weights large enough for the labels before to matter."""
    torch.manual_seed(seed)
    head = LabelAwareHead(SPACE, 6, {"label_size": 5})
    for p in head.parameters():
        nn.init.uniform_(p, -1, 1)
    return head.eval().to(device)


def batch(seed: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    lengths = LENGTHS.roll(seed)
    states = torch.randn(4, 11, 6, generator=torch.Generator().manual_seed(seed))
    return states.to(device), (torch.arange(11) < lengths[:, None]).to(device)


def test_replayed_passes_find_what_the_search_finds() -> None:
    head = made()
    assert replayed(head, *batch(0), make=Rerun) is None  # a shape is recorded when it comes again
    for seed in range(1, 8):
        found = replayed(head, *batch(seed), make=Rerun)
        assert found is not None
        assert torch.equal(found, fixed_point(head, *batch(seed)).tags)


def test_it_tells_how_many_passes_its_slowest_sentence_took() -> None:
    head = made()
    take = Rerun(head, *batch(0))
    take.record()
    for seed in range(4):
        with torch.no_grad():
            take(*batch(seed))
        assert take.passes == fixed_point(head, *batch(seed), rounds=0).passes.max()


def test_the_last_open_sentences_are_settled_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    def counted(
        tagger: Autoregressive, reading: Reading, chain: Chain, known: Tensor, settled: Tensor
    ) -> tuple[Tensor, Tensor]:
        sizes.append(len(known))
        return exact_pass(tagger, reading, chain, known, settled)

    monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(module, "exact_pass", counted)
    head = made()
    replayed(head, *batch(0), make=Rerun)
    for seed in range(1, 8):
        found = replayed(head, *batch(seed), make=Rerun)
        assert found is not None
        assert torch.equal(found, fixed_point(head, *batch(seed)).tags)
    assert set(sizes) == {2, 4}


def test_weights_that_move_in_place_are_followed_and_new_ones_are_recorded_anew() -> None:
    head = made()
    replayed(head, *batch(0), make=Rerun)
    replayed(head, *batch(0), make=Rerun)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(torch.rand_like(p) * 2 - 1)
    found = replayed(head, *batch(1), make=Rerun)
    assert found is not None
    assert torch.equal(found, fixed_point(head, *batch(1)).tags)
    head.project = nn.Linear(head.project.in_features, len(SPACE))
    assert replayed(head, *batch(1), make=Rerun) is None


def test_recordings_go_with_their_decoder() -> None:
    gc.collect()  # of other tests
    head = made()
    for _ in range(2):
        replayed(head, *batch(0), make=Rerun)
    before = len(module._kept)
    del head
    gc.collect()
    assert len(module._kept) == before - 1


def test_a_failed_recording_is_told_once_and_does_without(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(Replayed):
        def record(self) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(module, "_broken", [])
    head = made()
    assert replayed(head, *batch(0), make=Refuses) is None
    with pytest.warns(RuntimeWarning, match="not recorded, which is slower: .*capturing$"):
        assert replayed(head, *batch(0), make=Refuses) is None
    assert replayed(head, *batch(0), make=Refuses) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_on_a_gpu() -> None:
    head = made(device="cuda")
    for seed in (0, 0, 1, 2, 3):
        states, mask = batch(seed, "cuda")
        expected = fixed_point(head, states, mask).tags
        found = replayed(head, states, mask)
        assert found is None or torch.equal(found, expected)
    assert found is not None


def test_what_the_cpu_has_a_part_in_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    assert carries_on_gpu(torch.float32)
    assert carries_on_gpu(torch.bfloat16)
    assert not carries_on_gpu(torch.float64)
    monkeypatch.setattr(chain._carry, "failed", "no compiler")
    assert not carries_on_gpu(torch.float32)
    streams, recorded = list[torch.device](), list[object]()
    monkeypatch.setattr(module, "own_stream", lambda device: nullcontext(streams.append(device)))
    monkeypatch.setattr(module, "record", lambda *given: recorded.append(given))
    with torch.no_grad(), pytest.raises(RuntimeError, match="the CPU has a part in it"):
        Replayed(made(), *batch(0)).record()
    assert len(streams) == 1
    assert not recorded
