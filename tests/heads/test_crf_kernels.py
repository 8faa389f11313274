"""The fast kernels against the log-space loop and against pytorch-crf."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from nershift.heads.crf import kernels
from nershift.heads.crf.kernels import log_partition, log_partition_reference, negative_log_likelihood, score, viterbi
from nershift.heads.tags import unpad

LENGTHS = (9, 1, 5, 0)


def chain(size: int, legal: float = 1.0, scale: float = 2.0) -> list[Tensor]:
    """Emissions, transitions, starts, ends; with ``legal`` < 1 some are impossible, none with tag 0."""
    made = torch.Generator().manual_seed(size)
    scores = [
        scale * torch.randn(shape, generator=made).double()
        for shape in ((len(LENGTHS), max(LENGTHS), size), (size, size), (size,), (size,))
    ]
    for table in scores[1:]:
        out = torch.rand(table.shape, generator=made) > legal
        out[..., 0], out[0] = False, False
        table[out] = -1e9
    return [s.requires_grad_() for s in scores]


MASK = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]
WEIGHTS = torch.tensor([0.3, 1.0, -2.0, 5.0])


def gradients(value: Tensor, scores: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad((value * WEIGHTS.to(value)).sum(), scores))


@pytest.mark.parametrize("size", [2, 5, 17, 73])
@pytest.mark.parametrize("legal", [1.0, 0.6])
@pytest.mark.parametrize("scale", [0.1, 2.0, 6.0])
def test_value_and_gradient_equal_the_reference(size, legal, scale):
    scores = chain(size, legal=legal, scale=scale)
    found, expected = log_partition(*scores, MASK), log_partition_reference(*scores, MASK)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(gradients(found, scores), gradients(expected, scores), strict=True):
        torch.testing.assert_close(ours, theirs)
    with torch.no_grad():
        torch.testing.assert_close(log_partition(*scores, MASK), expected.detach())


def test_loss_equals_its_two_parts():
    scores = chain(17, legal=0.6)
    tags = torch.randint(0, 17, MASK.shape)
    tags[:, 1::2] = 0  # so that no step is impossible
    tags[2, 0] = 0
    found = negative_log_likelihood(scores[0], tags, *scores[1:], MASK)
    expected = log_partition_reference(*scores, MASK) - score(scores[0], tags, *scores[1:], MASK)
    torch.testing.assert_close(found, expected)
    for ours, theirs in zip(gradients(found, scores), gradients(expected, scores), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_gradcheck():
    scores = chain(4)
    assert torch.autograd.gradcheck(lambda *s: log_partition(*s, MASK), scores)


def test_backward_may_run_twice_and_passes_may_overlap():
    scores = chain(5)
    first = log_partition(*scores, MASK)
    other = log_partition(scores[0] * 3, *scores[1:], MASK)  # must not write over what the first one kept
    kept = torch.autograd.grad(first.sum(), scores, retain_graph=True)
    torch.autograd.grad(other.sum(), scores)
    again = torch.autograd.grad(first.sum(), scores)
    expected = torch.autograd.grad(log_partition_reference(*scores, MASK).sum(), scores)
    for a, b, c in zip(kept, again, expected, strict=True):
        torch.testing.assert_close(a, b)
        torch.testing.assert_close(a, c)


def test_long_sentences_need_normalisation():
    torch.manual_seed(0)
    emissions, moves = 8 * torch.randn(2, 500, 9).double(), torch.randn(9, 9).double()
    edges, mask = torch.zeros(9).double(), torch.ones(2, 500).bool()
    args = (emissions.requires_grad_(), moves, edges, edges, mask)
    found, expected = log_partition(*args), log_partition_reference(*args)
    torch.testing.assert_close(found, expected)
    a, b = (torch.autograd.grad(x.sum(), emissions)[0] for x in (found, expected))
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("scale", [120.0, 1e4])
def test_extreme_scores_fall_back_to_log_space(scale):
    scores = [(s.detach().sign() * scale).float().requires_grad_() for s in chain(7)]
    assert kernels._run(*scores, MASK, None) is None
    found, expected = log_partition(*scores, MASK), log_partition_reference(*scores, MASK)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, expected)
    tags = torch.zeros(MASK.shape, dtype=torch.long)
    assert torch.isfinite(negative_log_likelihood(scores[0], tags, *scores[1:], MASK)).all()


def test_late_winner_is_not_lost_to_underflow():
    # Tag 1 starts e^-90 behind and wins by e^+180 later; staying on a tag is all but forced.
    emissions = torch.zeros(1, 10, 2)
    emissions[0, :3, 1] = -30
    emissions[0, 3:, 1] = 30
    moves = torch.tensor([[0.0, -60.0], [-60.0, 0.0]])
    args = (emissions, moves, torch.zeros(2), torch.zeros(2), torch.ones(1, 10).bool())
    torch.testing.assert_close(log_partition(*args), log_partition_reference(*args))


def test_nan_is_passed_on_not_hidden():
    scores = [s.detach() for s in chain(5)]
    scores[0][0, 0, 0] = float("nan")
    assert torch.isnan(log_partition(*scores, MASK)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_emissions(dtype):
    scores = [s.detach().float() for s in chain(17)]
    half = scores[0].to(dtype).requires_grad_()
    value = log_partition(half, *scores[1:], MASK)
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, log_partition_reference(half.float(), *scores[1:], MASK))
    assert torch.autograd.grad(value.sum(), half)[0].dtype == dtype


@pytest.mark.parametrize("size", [5, 17])
def test_equals_pytorch_crf(size):
    torchcrf = pytest.importorskip("torchcrf")
    torch.manual_seed(0)
    model = torchcrf.CRF(size, batch_first=True)
    lengths = torch.tensor([8, 3, 6])
    mask = torch.arange(8) < lengths[:, None]
    emissions, tags = torch.randn(3, 8, size, requires_grad=True), torch.randint(0, size, (3, 8))
    scores = [emissions, model.transitions, model.start_transitions, model.end_transitions]
    theirs = -model(emissions, tags, mask, reduction="none")
    ours = negative_log_likelihood(emissions, tags, *scores[1:], mask)
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)
    for a, b in zip(*(torch.autograd.grad(x.sum(), scores) for x in (ours, theirs)), strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=0)
    assert unpad(viterbi(*scores, mask)[0], mask) == model.decode(emissions, mask)


@pytest.mark.parametrize("size", [5, 17, 40, 73, 128])
@pytest.mark.parametrize("legal", [1.0, 0.6])
@pytest.mark.parametrize("gold", [False, True])
def test_triton_kernel_equals_the_reference(triton_device, size, legal, gold):
    from nershift.heads.crf import on_gpu

    scores, mask = chain(size, legal=legal), MASK.to(triton_device)
    tags = torch.randint(0, size, MASK.shape)
    tags[:, 1::2], tags[2, 0] = 0, 0
    expected = log_partition_reference(*scores, MASK)
    if gold:
        expected = expected - score(scores[0], tags, *scores[1:], MASK)
    plain = [s.detach().to(triton_device).float() for s in scores]
    value, pull = on_gpu.run(*plain, mask, tags.to(triton_device) if gold else None, True)
    torch.testing.assert_close(value.cpu(), expected.detach().float(), atol=1e-4, rtol=1e-5)
    for ours, theirs in zip(pull(WEIGHTS.to(triton_device)), gradients(expected, scores), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs.float(), atol=1e-4, rtol=1e-4)
    alone, _ = on_gpu.run(*plain, mask, tags.to(triton_device) if gold else None, False)
    torch.testing.assert_close(alone, value)


@pytest.mark.parametrize("scale", [12.0, 40.0, 1e4])
def test_triton_kernel_takes_scores_far_apart(triton_device, scale):
    from nershift.heads.crf import on_gpu

    scores = [s.requires_grad_() for s in ((s.detach().sign() * scale) for s in chain(7))]
    expected = log_partition_reference(*scores, MASK)
    plain = [s.detach().float().to(triton_device) for s in scores]
    value, pull = on_gpu.run(*plain, MASK.to(triton_device), None, True)
    torch.testing.assert_close(value.cpu(), expected.detach().float())
    for ours, theirs in zip(pull(WEIGHTS.to(triton_device)), gradients(expected, scores), strict=True):
        # float32 holds sums of scores of 1e4 to about three places
        torch.testing.assert_close(ours.cpu(), theirs.float(), atol=1e-4 + scale / 2**20, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_gpu_runs_the_kernel_without_a_warning(recwarn):
    scores = [s.detach().cuda().bfloat16().requires_grad_() for s in chain(17)]
    log_partition(*scores, MASK.cuda()).sum().backward()
    assert scores[0].grad is not None
    assert not kernels._gpu.failed


def test_a_failing_gpu_kernel_warns_once_and_the_cpu_takes_over(monkeypatch):
    monkeypatch.setattr(kernels._gpu, "failed", "")
    monkeypatch.setitem(sys.modules, "nershift.heads.crf.on_gpu", None)
    monkeypatch.delattr("nershift.heads.crf.on_gpu", raising=False)
    scores = [s.detach().float() for s in chain(5)]
    with pytest.warns(RuntimeWarning, match="its requirements cannot be imported"):
        assert kernels._on_gpu(scores, MASK, None, False) is None
    assert kernels._on_gpu(scores, MASK, None, False) is None
    assert "imported" in kernels._gpu.failed


def test_a_kernel_that_ran_out_of_memory_is_tried_again(monkeypatch):
    def run(*_):
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(kernels._gpu, "failed", "")
    monkeypatch.setitem(sys.modules, "nershift.heads.crf.on_gpu", SimpleNamespace(run=run))
    with pytest.raises(torch.OutOfMemoryError):
        kernels._on_gpu([s.detach().float() for s in chain(5)], MASK, None, False)
    assert not kernels._gpu.failed
