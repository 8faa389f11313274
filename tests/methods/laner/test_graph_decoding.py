"""Greedy decoding by CUDA graphs against the passes that they replay."""

from __future__ import annotations

import gc
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor, nn

from nershift.data.labels import LabelSpace
from nershift.methods.laner.fast import chain
from nershift.methods.laner.fast import graph_decoding as module
from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.chain import Chain, propagates_on_gpu
from nershift.methods.laner.fast.fixed_point import fixed_point, parallel_pass
from nershift.methods.laner.fast.graph_decoding import GraphDecoder, decode_by_graphs
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings

SPACE = LabelSpace.of(["A", "B", "C"], "BIO")
LENGTHS = torch.tensor([11, 4, 1, 7])


class Rerun(GraphDecoder):
    """Where there is no GPU: a replay runs the code again."""

    def capture(self) -> None:
        self.replay_begin, self.replay_settle, self.replay_settle_few = self.begin, self.settle, self.settle_few


def make(seed: int = 0, device: str = "cpu") -> LabelAwareHead:
    """Weights large enough for the labels before to matter."""
    torch.manual_seed(seed)
    head = LabelAwareHead(SPACE, 6, LabelAwareSettings(label_size=5))
    for p in head.parameters():
        nn.init.uniform_(p, -1, 1)
    return head.eval().to(device)


def batch(seed: int, device: str = "cpu") -> tuple[Tensor, Tensor]:
    lengths = LENGTHS.roll(seed)
    states = torch.randn(4, 11, 6, generator=torch.Generator().manual_seed(seed))
    return states.to(device), (torch.arange(11) < lengths[:, None]).to(device)


def test_replayed_passes_find_the_fixed_point() -> None:
    head = make()
    assert decode_by_graphs(head, *batch(0), make=Rerun) is None  # a shape is captured when it comes again
    for seed in range(1, 8):
        tags = decode_by_graphs(head, *batch(seed), make=Rerun)
        assert tags is not None
        assert torch.equal(tags, fixed_point(head, *batch(seed)).tags)


def test_it_counts_the_passes_of_its_slowest_sentence() -> None:
    head = make()
    decoder = Rerun(head, *batch(0))
    decoder.capture()
    for seed in range(4):
        with torch.no_grad():
            decoder(*batch(seed))
        assert decoder.passes == fixed_point(head, *batch(seed)).passes.max()


def test_the_last_open_sentences_are_settled_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = list[int]()

    def counted(batch: AllPrefixes, chain: Chain, known: Tensor, settled: Tensor) -> tuple[Tensor, Tensor]:
        sizes.append(len(known))
        return parallel_pass(batch, chain, known, settled)

    monkeypatch.setattr(module, "FEW", 2)
    monkeypatch.setattr(module, "parallel_pass", counted)
    head = make()
    decode_by_graphs(head, *batch(0), make=Rerun)
    for seed in range(1, 8):
        tags = decode_by_graphs(head, *batch(seed), make=Rerun)
        assert tags is not None
        assert torch.equal(tags, fixed_point(head, *batch(seed)).tags)
    assert set(sizes) == {2, 4}


def test_weights_that_change_in_place_are_followed_and_new_ones_are_captured_anew() -> None:
    head = make()
    decode_by_graphs(head, *batch(0), make=Rerun)
    decode_by_graphs(head, *batch(0), make=Rerun)
    with torch.no_grad():
        for p in head.parameters():
            p.copy_(torch.rand_like(p) * 2 - 1)
    tags = decode_by_graphs(head, *batch(1), make=Rerun)
    assert tags is not None
    assert torch.equal(tags, fixed_point(head, *batch(1)).tags)
    head.project = nn.Linear(head.project.in_features, len(SPACE))
    assert decode_by_graphs(head, *batch(1), make=Rerun) is None


def test_graphs_go_with_their_head() -> None:
    gc.collect()  # of other tests
    head = make()
    for _ in range(2):
        decode_by_graphs(head, *batch(0), make=Rerun)
    before = len(module._kept)
    del head
    gc.collect()
    assert len(module._kept) == before - 1


def test_a_failed_capture_warns_once_and_decoding_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses(GraphDecoder):
        def capture(self) -> None:
            raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(module, "_broken", [])
    head = make()
    assert decode_by_graphs(head, *batch(0), make=Refuses) is None
    with pytest.warns(RuntimeWarning, match="without CUDA graphs, which is slower: .*capturing$"):
        assert decode_by_graphs(head, *batch(0), make=Refuses) is None
    assert decode_by_graphs(head, *batch(0), make=Refuses) is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_on_a_gpu() -> None:
    head = make(device="cuda")
    for seed in (0, 0, 1, 2, 3):
        states, mask = batch(seed, "cuda")
        expected = fixed_point(head, states, mask).tags
        tags = decode_by_graphs(head, states, mask)
        assert tags is None or torch.equal(tags, expected)
    assert tags is not None


def test_what_the_cpu_takes_part_in_is_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    assert propagates_on_gpu(torch.float32)
    assert propagates_on_gpu(torch.bfloat16)
    assert not propagates_on_gpu(torch.float64)
    monkeypatch.setattr(chain._propagate, "failed", "no compiler")
    assert not propagates_on_gpu(torch.float32)
    streams, captured = list[torch.device](), list[object]()
    monkeypatch.setattr(module, "own_stream", lambda device: nullcontext(streams.append(device)))
    monkeypatch.setattr(module, "record", lambda *given: captured.append(given))
    with torch.no_grad(), pytest.raises(RuntimeError, match="the CPU takes part in it"):
        GraphDecoder(make(), *batch(0)).capture()
    assert len(streams) == 1
    assert not captured
