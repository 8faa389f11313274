"""The fused CUDA kernel of the label context against walks and attention one after the other."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from cuda_on_cpu import COMPILER, on_cpu
from nershift.data.labels import LabelSpace
from nershift.methods.laner.fast import chain, graph_decoding, kernels, prefix_states
from nershift.methods.laner.fast.attention import attend
from nershift.methods.laner.fast.prefix_states import backward_states, forward_states, fused_context, recurrence
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings, LabelEncoder

ARGUMENTS = [
    *("const float4*", "const float*", "const long long*", "const float*", "const float*", "const float*"),
    *("const unsigned char*", "float*", "int", "int", "int", "int", "int"),
]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def case(batch: int, n: int, size: int, first: int) -> tuple[list[Tensor], Tensor]:
    """The kernel's arguments without ``first``, and the expected result."""
    torch.manual_seed(n)
    encoder, table = LabelEncoder(size), torch.randn(6, size)
    for p in encoder.parameters():
        nn.init.uniform_(p, -0.5, 0.5)
    labels, live = torch.randint(0, 6, (batch, n)), torch.rand(batch, n) < 0.8
    live[:, -1] = torch.arange(batch) % 4 == 0
    query, scores = torch.randn(batch, n - first, size), torch.randn(batch, n - first, n)
    with torch.no_grad():
        ahead = forward_states(encoder, table, labels)
        shares, means = attend(*backward_states(encoder, table, labels, live, first), query, scores, first)
        given = [x.detach() for x in (*recurrence(encoder, table), labels, ahead, query, scores, live)]
        return given, torch.cat([shares @ ahead, means], -1)


@pytest.mark.skipif(COMPILER is None, reason="needs g++")
@pytest.mark.parametrize(
    ("batch", "n", "size", "first", "quads", "shared"),
    [(3, 7, 5, 0, 1, True), (9, 5, 33, 0, 2, True), (6, 6, 40, 3, 1, False), (1, 1, 3, 0, 2, False)],
)
def test_the_source_equals_walks_and_attention(tmp_path, monkeypatch, batch, n, size, first, quads, shared) -> None:
    settings = kernels.context_settings(size, quads, shared)
    kernel = on_cpu(kernels.source("context"), "label_context", settings, tmp_path, ARGUMENTS)
    monkeypatch.setattr(kernels, "_context_kernel", lambda *_: kernel)
    given, expected = case(batch, n, size, first)
    found, wanted = kernels.context(*given, first, quads=quads), given[-1][:, first:]
    assert torch.allclose(found[wanted], expected[wanted], atol=2e-5, rtol=1e-4)


@needs_gpu
@pytest.mark.parametrize("quads", [1, 2])
@pytest.mark.parametrize(
    ("batch", "n", "size", "first"), [(3, 7, 5, 0), (17, 9, 20, 0), (18, 9, 100, 4), (5, 4, 128, 0)]
)
def test_the_gpu_kernel_equals_walks_and_attention(batch, n, size, first, quads) -> None:
    given, expected = case(batch, n, size, first)
    found = kernels.context(*(x.cuda() for x in given), first, quads=quads).cpu()
    wanted = given[-1][:, first:]
    assert torch.allclose(found[wanted], expected[wanted], atol=2e-5, rtol=1e-4)


def test_a_block_has_room_for_the_paper_s_size() -> None:
    h100, a100 = 227 * 1024, 163 * 1024
    assert kernels.shared_bytes(100, 1, weights=True) <= a100 <= h100
    assert kernels.shared_bytes(128, 2, weights=False) <= 48 * 1024


def test_the_cpu_does_without_the_kernel() -> None:
    labels, live = torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool)
    states = torch.zeros(2, 3, 4)
    assert (
        fused_context(LabelEncoder(4), torch.zeros(5, 4), labels, states, states, torch.zeros(2, 3, 3), live, 0) is None
    )


@needs_gpu
@pytest.mark.parametrize("size", [100, 129])
def test_the_gpu_decodes_with_the_kernels_without_a_warning(size) -> None:
    torch.manual_seed(0)
    head = LabelAwareHead(LabelSpace.of(["A", "B"], "BIO"), 24, LabelAwareSettings(label_size=size)).cuda().eval()
    states = 3 * torch.randn(20, 12, 24, device="cuda")
    mask = torch.arange(12, device="cuda") < torch.arange(1, 21, device="cuda")[:, None]
    expected = head.greedy(states, mask)
    for _ in range(3):  # the third time by CUDA graphs
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = head.decode(states, mask)
        assert found == [row[: len(tags)].tolist() for row, tags in zip(expected, found, strict=True)]
    assert not prefix_states._fused.failed
    assert not chain._propagate.failed
    assert any(graph_decoding._kept[head].values())
