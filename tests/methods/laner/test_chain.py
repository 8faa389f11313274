"""The chain against the head that it approximates, how it propagates tags, and what it may not change."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from cuda_on_cpu import COMPILER, on_cpu
from nershift.data.labels import LabelSpace
from nershift.methods.laner.fast import chain as module
from nershift.methods.laner.fast import kernels
from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.chain import PREFIX, Chain, typical_prefixes
from nershift.methods.laner.fast.fixed_point import first_guess, fixed_point, parallel_pass
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings

VARIANTS = [
    {"background": b, "context": c, "connect": n}
    for b, c, n in itertools.product((True, False), (True, False), (True, False))
]
ARGUMENTS = [  # of the kernel
    *("const float*", "const long long*", "const long long*", "const unsigned char*", "const float*"),
    *(
        "const float*",
        "const float*",
        "const float*",
        "const unsigned char*",
        "long long*",
        "int",
        "int",
        "int",
    ),
]


def make(scheme: Any = "BIO", seed: int = 0, types: int = 3, **settings: Any) -> LabelAwareHead:
    """Weights large enough for the labels before to matter."""
    torch.manual_seed(seed)
    space = LabelSpace.of([f"t{i}" for i in range(types)], scheme)
    head = LabelAwareHead(space, 6, LabelAwareSettings(label_size=5, **settings)).double()
    for p in head.parameters():
        nn.init.uniform_(p, -1, 1)
    return head.eval().requires_grad_(False)


def batch(lengths: list[int], seed: int = 0) -> tuple[Tensor, Tensor]:
    torch.manual_seed(seed)
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return 2 * torch.randn(*mask.shape, 6).double(), mask


def chain_of(head: LabelAwareHead, states: Tensor, mask: Tensor) -> Chain:
    return Chain.of(AllPrefixes.read(head, states, mask))


def plain(chain: Chain, scores: Tensor, known: Tensor, open_: Tensor, first: int) -> Tensor:
    """Sentence by sentence, position by position."""
    tags = known.clone()
    for b, i in itertools.product(range(len(known)), range(scores.shape[1])):
        at, start = first + i, len(chain.forbidden) - 1
        was, now = (int(x[b, at - 1]) if at else start for x in (known, tags))
        effects = []
        for p in (was, now):
            shares = (chain.token_attention[b, at, p] + chain.background_attention[b, p]).softmax(0)
            effects.append(chain.background[b, p] + shares @ chain.values[p])
        moved = scores[b, i] + effects[1] - effects[0]
        if open_[b, at]:
            tags[b, at] = moved.masked_fill(chain.forbidden[now], float("-inf")).argmax()
    return tags


@pytest.mark.parametrize("settings", VARIANTS)
def test_its_scores_are_the_heads_where_the_labels_before_are_typical(settings: dict[str, bool]) -> None:
    head = make(**settings)
    states, mask = batch([7, PREFIX])
    prefixes, chain = typical_prefixes(head), chain_of(head, states, mask)
    for prefix in prefixes:
        tags = torch.zeros(mask.shape, dtype=torch.long)
        tags[:, : PREFIX - 1] = prefix[1:]
        exact, ours = head.log_probabilities(states, mask, tags), chain.scores(tags).log_softmax(-1)
        for i in (0, PREFIX - 1):
            torch.testing.assert_close(ours[:, i], exact[:, i])
    assert prefixes[:, -1].tolist() == list(range(len(head.space)))
    assert (prefixes[:, 0] == len(head.space)).all()


def cases(head: LabelAwareHead, mask: Tensor, first: int) -> Iterator[tuple[Tensor, Tensor, Tensor, Tensor]]:
    """Scores, their best tags, known tags and open positions, whatever they are."""
    sentences, length = mask.shape
    for seed in range(5):
        torch.manual_seed(seed)
        known = torch.randint(0, len(head.space), mask.shape)
        scores = torch.randn(sentences, length - first, len(head.space)).to(head.project.weight)
        scores = head.legal_ends(scores, mask[:, : length - first], 0)
        settled = first + torch.tensor([0, 1, 0, length])[:sentences]
        open_ = mask & (torch.arange(length) >= settled[:, None])
        yield scores, head.legal_after(scores, known, first).argmax(-1), known, open_


@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOB1"])
@pytest.mark.parametrize("first", [0, 3])
@pytest.mark.parametrize("shown", [1, 9])
def test_propagation_is_the_plain_loop(scheme: str, first: int, shown: int) -> None:
    head = make(scheme)
    head.restrict(head.types[:shown])
    states, mask = batch([11, 4, 1, 7])
    chain = chain_of(head, states, mask)
    for scores, best, known, open_ in cases(head, mask, first):
        expected = plain(chain, scores, known, open_, first)
        assert torch.equal(chain.propagate(scores, best, known, open_, first), expected)
        assert torch.equal(expected[~open_], known[~open_])


@pytest.fixture
def kernel_on_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[LabelAwareHead], LabelAwareHead]:
    """Take the GPU's path with this head, in single precision as there."""
    if COMPILER is None:
        pytest.skip("needs g++")

    def with_kernel(head: LabelAwareHead) -> LabelAwareHead:
        settings = {"TAGS": len(head.space), "PREFIX": PREFIX}
        kernel = on_cpu(kernels.source("propagate"), "propagate", settings, tmp_path, ARGUMENTS)
        monkeypatch.setattr(kernels, "_propagate_kernel", lambda *_: kernel)
        monkeypatch.setattr(Chain, "_on_cpu", Chain._on_gpu)
        return head.float()

    return with_kernel


@pytest.mark.parametrize(("scheme", "types", "first"), [("BIO", 3, 0), ("BIOES", 3, 3), ("BIO", 17, 2)])
def test_the_source_for_the_gpu_is_the_plain_loop(kernel_on_cpu, scheme, types, first) -> None:
    """With fewer tags than a warp has threads, and with more."""
    head = kernel_on_cpu(make(scheme, types=types))
    states, mask = batch([9, 4, 1, 7])
    chain = chain_of(head, states.float(), mask)
    for scores, best, known, open_ in cases(head, mask, first):
        expected = plain(chain, scores, known, open_, first)
        assert torch.equal(chain.propagate(scores, best, known, open_, first), expected)


@pytest.mark.parametrize("settings", VARIANTS[::3])
def test_decoding_with_the_source_for_the_gpu_is_greedy(kernel_on_cpu, settings) -> None:
    head = kernel_on_cpu(make(**settings))
    states, mask = batch([6, 4, 1])
    for shown in (head.types, head.types[:1]):
        head.restrict(shown)
        assert torch.equal(fixed_point(head, states.float(), mask).tags, head.greedy(states.float(), mask))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize(("types", "first"), [(3, 0), (17, 2)])
def test_the_gpu_kernel_is_the_plain_loop(types: int, first: int) -> None:
    head = make(types=types).float()
    states, mask = batch([9, 4, 1, 7])
    chain = chain_of(head, states.float(), mask)
    parts = {field.name: getattr(chain, field.name).cuda() for field in fields(chain)}
    for case in cases(head, mask, first):
        scores, _, known, open_ = case
        tags = Chain(**parts).propagate(*(x.cuda() for x in case), first).cpu()
        assert torch.equal(tags, plain(chain, scores, known, open_, first))
    assert not module._propagate.failed


@pytest.mark.parametrize("scheme", ["BIO", "BIOES"])
@pytest.mark.parametrize("lengths", [[9, 4, 1, 7], [1, 1], [2], [17, 16, 3]])
def test_decoding_is_greedy(scheme: str, lengths: list[int]) -> None:
    for seed, settings in enumerate(VARIANTS):
        head = make(scheme, seed, **settings)
        states, mask = batch(lengths, seed)
        assert torch.equal(fixed_point(head, states, mask).tags, head.greedy(states, mask))


def test_each_pass_settles_one_more_tag_even_with_a_chain_that_misleads() -> None:
    head = make("BIOES")
    states, mask = batch([11, 4, 1, 7])
    lengths, sentences = mask.sum(1), AllPrefixes.read(head, states, mask)
    chain = Chain.of(sentences)
    chain = replace(chain, background=100 * torch.randn_like(chain.background))
    expected = head.greedy(states, mask)
    tags, settled = torch.randint(0, len(head.space), mask.shape).masked_fill(~mask, 0), 0 * lengths
    for _ in range(11):
        before = settled
        tags, settled = parallel_pass(sentences, chain, tags, settled)
        assert (settled >= (before + 1).clamp(max=lengths)).all()
        right = torch.arange(11) < settled[:, None]
        assert torch.equal(tags[right], expected[right])
    assert torch.equal(tags, expected)


def test_the_guess_is_legal_and_needs_no_pass() -> None:
    head = make("BIOES")
    states, mask = batch([11, 4, 1, 7])
    space, sentences = head.space, AllPrefixes.read(head, states, mask)
    chain = Chain.of(sentences)
    guess = first_guess(sentences, chain)
    assert not guess[~mask].any()
    for b, length in enumerate(mask.sum(1).tolist()):
        path = guess[b, :length].tolist()
        assert space.legal_starts[path[0]]
        assert space.legal_ends[path[-1]]
        assert all(space.legal_steps[x][y] for x, y in itertools.pairwise(path))
    rows = torch.tensor([3, 1])
    assert torch.equal(first_guess(sentences.select(rows, 7), chain.select(rows, 7)), guess[[3, 1], :7])


def test_it_adds_nothing_to_what_is_saved() -> None:
    """So that the chain decodes any saved model."""
    saved = {name.partition(".")[0] for name in make().state_dict()}
    assert saved == {"project", "labels", "prefixes", "query", "reader"}
