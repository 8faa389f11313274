"""Partition function of a linear chain with its gradient: the plain loop, and which fast kernel runs when.

The gradient of the log partition function is the expected number of uses of each score (the marginals), so
one forward-backward pass gives value and gradient together and autograd need not record a step of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from nershift.backend.device import GpuKernel
from nershift.errors import SetupError
from nershift.heads.crf.arrays import Pass, trace

# From the gradient for the value [B] to those for emissions, transitions, starts and ends.
Pull = Callable[[Tensor], tuple[Tensor, ...]]
MOST_TAGS = 128  # that the GPU kernel serves
_gpu = GpuKernel("nershift.heads.crf.on_gpu", "the CRF runs on the CPU, with equal results but slower")


def score(emissions: Tensor, tags: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
    """Unnormalised log score of given paths, [B]; differentiable. 0 for an empty sentence."""
    tags = tags.masked_fill(~mask, 0)
    emitted = emissions.gather(2, tags[..., None])[..., 0].masked_fill(~mask, 0.0).sum(1)
    moved = transitions[tags[:, :-1], tags[:, 1:]].masked_fill(~mask[:, 1:], 0.0).sum(1)
    last = mask.sum(1).clamp(min=1) - 1
    edges = starts[tags[:, 0]] + ends[tags.gather(1, last[:, None])[:, 0]]
    return emitted + moved + edges.masked_fill(~mask[:, 0], 0.0)


def log_partition_reference(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor
) -> Tensor:
    """Log partition function by the textbook loop in log space, [B]; any number of times differentiable.

    Slow. It is the oracle of the fast kernels, and serves scores too far apart for them, second-order
    gradients and ``torch.func`` transforms. Impossible scores must be finite (-1e9, say) where gradients are
    wanted.
    """
    emissions = emissions.masked_fill(~mask[..., None], 0.0)
    alpha = starts + emissions[:, 0]
    for t in range(1, emissions.shape[1]):
        # [B, before, 1] + [before, after] -> [B, after]
        step = torch.logsumexp(alpha[:, :, None] + transitions, 1) + emissions[:, t]
        alpha = torch.where(mask[:, t, None], step, alpha)
    return torch.logsumexp(alpha + ends, 1).masked_fill(~mask[:, 0], 0.0)


def log_partition(emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor) -> Tensor:
    """Log of the sum of exp(score) over all paths, [B]; once differentiable. 0 for an empty sentence.

    Args:
        emissions: [B, L, C].
        transitions: [C, C], before × after.
        starts: [C].
        ends: [C].
        mask: bool, left aligned, [B, L].
    """
    found = _run(emissions, transitions, starts, ends, mask, None)
    if found is None:
        return log_partition_reference(emissions, transitions, starts, ends, mask)
    return found


def negative_log_likelihood(
    emissions: Tensor, tags: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor
) -> Tensor:
    """``log_partition(…) - score(…)`` in one go, [B]; once differentiable."""
    found = _run(emissions, transitions, starts, ends, mask, tags)
    if found is None:
        chain = (transitions, starts, ends, mask)
        return log_partition_reference(emissions, *chain) - score(emissions, tags, *chain)
    return found


class _Attach(torch.autograd.Function):
    """Gives a value that is already there its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        emissions: Tensor,
        transitions: Tensor,
        starts: Tensor,
        ends: Tensor,
        value: Tensor,
        pull: Pull,
    ) -> Tensor:
        ctx.pull, ctx.dtypes = pull, [x.dtype for x in (emissions, transitions, starts, ends)]
        return value

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # create_graph=True; what follows would silently count as constant
            raise SetupError(
                "the fast CRF loss has no second derivative",
                expected="create_graph=False",
                fix="compute the loss within nershift.backend.device.double_backward()",
            )
        return (*(g.to(d) for g, d in zip(ctx.pull(grad), ctx.dtypes, strict=True)), None, None)


def _run(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor, tags: Tensor | None
) -> Tensor | None:
    """Choose a kernel and run it, [B]; None when the scores are beyond it and ask for the reference."""
    scores = (emissions, transitions, starts, ends)
    gradient = torch.is_grad_enabled() and any(x.requires_grad for x in scores)
    plain = [x.detach() for x in scores]
    found = None
    if emissions.is_cuda:
        found = _on_gpu(plain, mask, tags, gradient)
    if found is None:
        found = _on_cpu(plain, mask, tags, gradient)
    if found is None:
        return None
    value, pull = found
    return _Attach.apply(*scores, value, pull) if gradient else value


def _on_cpu(scores: list[Tensor], mask: Tensor, tags: Tensor | None, gradient: bool) -> tuple[Tensor, Pull] | None:
    device, wide = scores[0].device, torch.promote_types(scores[0].dtype, torch.float32)
    arrays = [x.to("cpu", wide).numpy() for x in scores]
    gold = None if tags is None else tags.cpu().numpy()
    run = Pass(arrays[0], arrays[1], arrays[2], arrays[3], mask.cpu().numpy(), gold, gradient)

    def pull(grad: Tensor) -> tuple[Tensor, ...]:
        return tuple(torch.from_numpy(x).to(device) for x in run.pull(grad.cpu().numpy()))

    return None if run.value is None else (torch.from_numpy(run.value).to(device), pull)


def _on_gpu(scores: list[Tensor], mask: Tensor, tags: Tensor | None, gradient: bool) -> tuple[Tensor, Pull] | None:
    """The Triton kernel; None, after one warning, where it cannot serve."""
    if _gpu.failed or scores[0].dtype == torch.float64:
        return None
    if scores[0].shape[2] > MOST_TAGS:
        _gpu.give_up(f"{scores[0].shape[2]} tags are more than the GPU kernel's {MOST_TAGS}")
        return None
    found: tuple[Tensor, Pull] | None = _gpu(*scores, mask, tags, gradient)
    return found


def viterbi(
    emissions: Tensor, transitions: Tensor, starts: Tensor, ends: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Best path and its score for each sentence.

    The forward pass keeps best scores only. The way back asks again which predecessor gave the score of the
    one tag it stands on, which costs B·C a step instead of the B·C² of stored back pointers.

    Returns:
        paths [B, L] (0 under padding) and scores [B].
    """
    emissions = emissions.detach().float().masked_fill(~mask[..., None], 0.0)
    moves = transitions.detach().float()
    batch, _, size = emissions.shape
    steps = emissions.transpose(0, 1).contiguous()  # [L, B, C]
    best = torch.empty_like(steps)
    torch.add(steps[0], starts.detach().float(), out=best[0])
    rows = best.unbind(0)
    room = best.new_empty(size, batch, size)  # before × sentence × after: the maximum runs over whole rows
    for before, row, step in zip(rows, rows[1:], steps[1:].unbind(0), strict=False):
        torch.add(before.t()[:, :, None], moves[:, None, :], out=room)
        torch.amax(room, 0, out=row)
        row.add_(step)
    paths, scores = trace(*(x.cpu().numpy() for x in (best, moves, ends.detach().float(), mask)))
    return torch.from_numpy(paths).to(mask.device), torch.from_numpy(scores).to(mask.device)
