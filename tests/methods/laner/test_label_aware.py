"""The label-aware head against the equations written out for one position, with the folder ``fast`` and without."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from nershift.data.labels import LabelSpace
from nershift.data.spans import Span
from nershift.errors import ConfigError
from nershift.heads.base import make_head
from nershift.heads.soft import SoftTargets
from nershift.methods.laner import head as module
from nershift.methods.laner.fast.all_prefixes import AllPrefixes
from nershift.methods.laner.fast.check import compare, margins
from nershift.methods.laner.fast.fixed_point import fixed_point
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings

SPACE = LabelSpace.of(["A", "B"], "BIO")
SIZE, LABEL = 6, 5
LENGTHS = [9, 4, 1, 7]
MASK = torch.arange(9) < torch.tensor(LENGTHS)[:, None]
VARIANTS = [
    {"background": b, "context": c, "connect": n}
    for b, c, n in itertools.product((True, False), (True, False), (True, False))
]


@pytest.fixture(params=["plain", "fast"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Position by position, as without the folder ``fast``, and all at once."""
    if request.param == "plain":
        monkeypatch.setattr(module, "fast", None)
    assert (module.fast is None) == (request.param == "plain")
    return str(request.param)


both_paths = pytest.mark.usefixtures("path")


def make(space: LabelSpace = SPACE, seed: int = 3, **settings: Any) -> LabelAwareHead:
    """A head with weights large enough for the labels before to matter."""
    torch.manual_seed(seed)
    head = LabelAwareHead(space, SIZE, LabelAwareSettings(label_size=LABEL, **settings))
    for p in head.parameters():
        nn.init.uniform_(p, -1, 1)
    return head.eval()


def states_of(batch: int = 4, length: int = 9, seed: int = 1) -> Tensor:
    return torch.randn(batch, length, SIZE, generator=torch.Generator().manual_seed(seed))


def legal_tags(space: LabelSpace = SPACE) -> Tensor:
    torch.manual_seed(0)
    return torch.randint(0, len(space), MASK.shape) * MASK


# -- oracles ------------------------------------------------------------------------------------------------


def bilstm(head: LabelAwareHead) -> nn.LSTM:
    """The label encoder as one library module."""
    both = nn.LSTM(LABEL, LABEL, bidirectional=True)
    for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
        getattr(both, name).data = getattr(head.prefixes.ahead, name).data
        getattr(both, name + "_reverse").data = getattr(head.prefixes.back, name).data
    return both


def scores_at(head: LabelAwareHead, both: nn.LSTM, h: Tensor, before: list[int]) -> Tensor:
    """Eqs. 3-10 for one position of one sentence ``h [L, H]`` with the tags ``before`` it, as printed."""
    settings, i = head.settings, len(before)
    e = both(head.labels(torch.tensor([len(head.space), *before]))[:, None])[0][:, 0]  # [i + 1, 2D]
    parts = [h[i]]
    if settings.background:
        shares = (h @ head.query(e[-1])).softmax(0)
        parts.append(shares @ h)
    if settings.context:
        read = torch.cat(parts) if settings.connect else h[i]
        shares = (e @ head.reader(read)).softmax(0)
        parts.append(shares @ e)
    return head.project(torch.cat(parts)).log_softmax(0)


def greedy(head: LabelAwareHead, h: Tensor) -> list[int]:
    """Greedy decoding from left to right within the scheme."""
    both, space, tags = bilstm(head), head.space, list[int]()
    for i in range(len(h)):
        scores = scores_at(head, both, h, tags)
        allowed = torch.tensor(space.legal_steps[tags[-1]] if tags else space.legal_starts)
        if i == len(h) - 1:
            allowed &= torch.tensor(space.legal_ends)
        tags.append(int(scores.masked_fill(~allowed, float("-inf")).argmax()))
    return tags


# -- scores and losses --------------------------------------------------------------------------------------


@both_paths
@pytest.mark.parametrize("settings", VARIANTS)
def test_losses_and_gradients_are_those_of_the_equations(settings: dict[str, bool]) -> None:
    """To 1e-5."""
    head, states, tags = make(**settings), states_of().requires_grad_(), legal_tags()
    found = head.loss(states, MASK, tags)
    leaves = [states, *head.parameters()]
    found_grads = torch.autograd.grad(found.sum(), leaves, allow_unused=True)
    both = bilstm(head)
    expected = []
    for b, length in enumerate(LENGTHS):
        row, h = tags[b].tolist(), states[b, :length]
        terms = [-scores_at(head, both, h, row[:i])[row[i]] for i in range(length)]
        expected.append(torch.stack(terms).sum())
    torch.testing.assert_close(found, torch.stack(expected), rtol=0, atol=1e-5)
    plain = dict(head.named_parameters())
    shared = [(f"prefixes.{part}.{name}", name + end) for part, end in (("ahead", ""), ("back", "_reverse"))
              for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")]  # fmt: skip
    for ours, theirs in shared:
        plain[ours] = getattr(both, theirs)
    wanted = [states, *(plain[n] for n, _ in head.named_parameters())]
    expected_grads = torch.autograd.grad(torch.stack(expected).sum(), wanted, allow_unused=True)
    for ours, theirs in zip(found_grads, expected_grads, strict=True):
        if theirs is None or ours is None:
            assert ours is None or not ours.any()
            assert theirs is None or not theirs.any()
        else:
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@both_paths
def test_padding_and_later_tags_have_no_effect() -> None:
    head, states, tags = make(), states_of(), legal_tags()
    before = head.log_probabilities(states, MASK, tags)
    noise = torch.where(MASK[..., None], states, torch.full_like(states, 50.0))
    torch.testing.assert_close(head.log_probabilities(noise, MASK, tags.masked_fill(~MASK, 3))[MASK], before[MASK])
    changed = tags.clone()
    changed[0, 5] = (changed[0, 5] + 1) % len(SPACE)
    after = head.log_probabilities(states, MASK, changed)
    torch.testing.assert_close(after[0, :6], before[0, :6])
    assert (after[0, 6:] - before[0, 6:]).abs().max() > 1e-3
    alone = head.log_probabilities(states[1:2, :4], MASK[1:2, :4], tags[1:2, :4])
    torch.testing.assert_close(alone, before[1:2, :4])


def test_some_positions_are_a_part_of_all() -> None:
    head, states, tags = make(), states_of(), legal_tags()
    whole, wanted = AllPrefixes.read(head, states, MASK), MASK & (torch.arange(9) != 4)
    part = whole.log_probabilities(tags, 2, wanted)
    torch.testing.assert_close(part[wanted[:, 2:]], whole.log_probabilities(tags)[:, 2:][wanted[:, 2:]])


@both_paths
def test_every_label_vector_is_trained_o_and_start_included() -> None:
    head = make()
    tags = torch.tensor([[0, 0, 1, 2, 0, 3, 4, 0, 0]])
    head.loss(states_of(1), MASK[:1], tags).sum().backward()
    assert head.labels.weight.grad is not None
    assert (head.labels.weight.grad.abs().sum(1) > 0).all()


@both_paths
def test_scheduled_sampling_reads_predictions_in_training_alone() -> None:
    plain, head, states, tags = make(), make(sampling=1.0), states_of(), legal_tags()
    expected = plain.loss(states, MASK, tags)
    torch.testing.assert_close(head.loss(states, MASK, tags), expected)
    found = head.log_probabilities(states, MASK, tags).argmax(-1)
    scores = head.log_probabilities(states, MASK, found).gather(2, tags[..., None])[..., 0]
    torch.testing.assert_close(head.train().loss(states, MASK, tags), -(scores * MASK).sum(1))


# -- decoding -----------------------------------------------------------------------------------------------


@both_paths
@pytest.mark.parametrize("scheme", ["BIO", "BIOES", "IOB1"])
@pytest.mark.parametrize("settings", VARIANTS[::2])
def test_decoding_is_greedy(scheme: Any, settings: dict[str, bool]) -> None:
    space = LabelSpace.of(["A", "B"], scheme)
    for seed in range(3):
        head, states = make(space, seed, **settings), states_of(seed=seed)
        expected = [greedy(head, states[b, :n]) for b, n in enumerate(LENGTHS)]
        assert head.decode(states, MASK) == expected
        for path in expected:
            assert space.legal_starts[path[0]]
            assert space.legal_ends[path[-1]]
            assert all(space.legal_steps[a][b] for a, b in itertools.pairwise(path))


@both_paths
@pytest.mark.parametrize("settings", VARIANTS)
def test_there_may_be_no_sentence(settings: dict[str, bool]) -> None:
    assert make(**settings).decode(states_of()[:0], MASK[:0]) == []


def test_margins_and_the_comparison_of_both_ways_to_decode() -> None:
    head, states = make(), states_of()
    tags = head.greedy(states, MASK)
    margin = margins(head, states, MASK, tags)
    assert (margin[MASK] >= 0).all()
    assert margin[~MASK].isinf().all()
    first = head.legal(head.log_probabilities(states, MASK, tags), tags, MASK, 0)[0, 0].sort().values
    torch.testing.assert_close(margin[0, 0], first[-1] - first[-2])
    counts = compare(head, [(states, MASK), (states[:1], MASK[:1])])
    assert (counts["sentences"], counts["differ"], counts["near_ties"]) == (5, 0, 0)
    assert counts["passes"] >= 1


def test_the_guess_decides_how_long_it_takes_and_nothing_else() -> None:
    head, states = make(), states_of()
    result = fixed_point(head, states, MASK)
    again = fixed_point(head, states, MASK, result.tags)
    assert torch.equal(again.tags, result.tags)
    assert again.passes.tolist() == [1, 1, 1, 1]
    for tag in range(len(SPACE)):
        other = fixed_point(head, states, MASK, torch.full(MASK.shape, tag))
        assert torch.equal(other.tags, result.tags)
        assert (other.passes <= torch.tensor(LENGTHS)).all()


@both_paths
def test_long_batches_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    head, states = make(), states_of()
    whole = head.decode(states, MASK)
    monkeypatch.setattr("nershift.methods.laner.head.MAX_CELLS", 100)
    assert head.decode(states, MASK) == whole
    assert head.confidences(states, MASK, [[Span(0, 1, "A")]] * 4)[2][0] > 0


def test_a_wide_beam_finds_the_best_sequence_and_a_narrow_one_is_greedy() -> None:
    head, states = make(), states_of(length=4)
    mask = MASK[:, :4]
    assert torch.equal(head.beam(states, mask), head.greedy(states, mask))
    both = bilstm(head).requires_grad_(False)
    head.requires_grad_(False)
    for b, best in enumerate(make(beam=500).decode(states, mask)):
        n = int(mask[b].sum())
        paths = [
            p
            for p in itertools.product(range(len(SPACE)), repeat=n)
            if SPACE.legal_starts[p[0]] and all(SPACE.legal_steps[x][y] for x, y in itertools.pairwise(p))
        ]
        h = states[b, :n]
        totals = [sum(float(scores_at(head, both, h, list(p[:i]))[p[i]]) for i in range(n)) for p in paths]
        assert best == list(paths[max(range(len(paths)), key=totals.__getitem__)])


@both_paths
def test_confidence_is_the_probability_of_the_tags_given_those_before() -> None:
    head, states = make().requires_grad_(False), states_of()
    both, h = bilstm(head).requires_grad_(False), states[0]
    spans = [Span(1, 3, "A"), Span(5, 6, "B"), Span(2, 4, "B")]  # the last overlaps the first
    found = head.confidences(states, MASK, [spans, [], [], []])
    tags = SPACE.encode(sorted(spans[:2]), 9)
    product = [float(scores_at(head, both, h, tags[:i])[tags[i]].exp()) for i in range(9)]
    alone = SPACE.encode([spans[2]], 9)
    other = [float(scores_at(head, both, h, alone[:i])[alone[i]].exp()) for i in range(9)]
    assert found[0] == pytest.approx([product[1] * product[2], product[5], other[2] * other[3]], rel=1e-4)
    assert found[1:] == [[], [], []]


def test_it_is_made_by_name_and_described_in_full(tmp_path: Path) -> None:
    head = make(context=False, beam=2)
    told = head.describe()
    again = make_head(told["kind"], LabelSpace(tuple(told["types"]), told["scheme"]), SIZE, told["settings"])
    assert isinstance(again, LabelAwareHead)
    assert again.settings == head.settings
    again.load_state_dict(head.state_dict())
    assert again.decode(states_of(), MASK) == head.decode(states_of(), MASK)
    with pytest.raises(ConfigError, match="label-aware"):
        make_head("label aware", SPACE, SIZE)  # type: ignore[arg-type]


@both_paths
def test_half_precision_states_are_widened() -> None:
    head, tags = make(), legal_tags()
    with torch.autocast("cpu", torch.bfloat16):
        loss = head.loss(states_of().bfloat16(), MASK, tags)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, head.loss(states_of().bfloat16(), MASK, tags))


def shown_scores(head: LabelAwareHead, h: Tensor, before: list[int], hidden: list[int]) -> Tensor:
    """Log probabilities of a position, as if hidden tags had the score -inf."""
    scores = scores_at(head, bilstm(head).requires_grad_(False), h, before)
    scores[hidden] = float("-inf")
    return scores.log_softmax(-1)


@both_paths
def test_types_that_may_not_be_predicted_have_no_score() -> None:
    head, states = make().requires_grad_(False), states_of()
    free = head.decode(states, MASK)
    head.restrict(["B"])
    hidden = [SPACE.index["B-A"], SPACE.index["I-A"]]
    for b, n in enumerate(LENGTHS):
        tags = list[int]()
        while len(tags) < n:
            scores = shown_scores(head, states[b, :n], tags, hidden)
            before = SPACE.legal_steps[tags[-1]] if tags else SPACE.legal_starts
            scores[[t for t, may in enumerate(before) if not may]] = float("-inf")
            tags.append(int(scores.argmax()))
        assert head.decode(states, MASK)[b] == tags
    assert any(set(row) & set(hidden) for row in free)
    head.restrict(SPACE.types)
    assert head.decode(states, MASK) == free


def test_a_wide_beam_finds_the_best_sequence_of_the_types_that_may_be_predicted() -> None:
    head, states, hidden = make(beam=500).requires_grad_(False), states_of(length=4), [1, 2]
    head.restrict(["B"])
    for b, best in enumerate(head.decode(states, MASK[:, :4])):
        n = min(4, LENGTHS[b])
        paths = [
            p
            for p in itertools.product([0, 3, 4], repeat=n)
            if SPACE.legal_starts[p[0]] and all(SPACE.legal_steps[x][y] for x, y in itertools.pairwise(p))
        ]
        h = states[b, :n]
        totals = [sum(float(shown_scores(head, h, list(p[:i]), hidden)[p[i]]) for i in range(n)) for p in paths]
        assert best == list(paths[max(range(len(paths)), key=totals.__getitem__)])


@both_paths
def test_confidences_are_among_the_types_that_may_be_predicted() -> None:
    head, states, hidden = make().requires_grad_(False), states_of(), [1, 2]
    head.restrict(["B"])
    spans = [Span(1, 3, "A"), Span(5, 6, "B")]
    tags = SPACE.encode(spans, 9)
    chances = [float(shown_scores(head, states[0], tags[:i], hidden)[tags[i]].exp()) for i in range(9)]
    assert head.confidences(states, MASK, [spans, [], [], []])[0] == pytest.approx([0.0, chances[5]], rel=1e-4)
    answer = [[Span(5, 6, "B")], [], [], []]
    alone = SPACE.encode(answer[0], 9)
    total = sum(float(shown_scores(head, states[0], alone[:i], hidden)[alone[i]]) for i in range(9))
    assert float(head.surprise(states, MASK, answer)[0]) == pytest.approx(-total, rel=1e-4)


@both_paths
def test_the_loss_may_compare_the_tags_of_some_types_alone() -> None:
    """The gold tag's share among `O` and the tags of `A`, from the equations; rows of `B` learn nothing."""
    head, states = make(), states_of()
    both, allowed = bilstm(head), head.tags_of(["A"])
    assert allowed.tolist() == [tag == "O" or tag.endswith("A") for tag in SPACE.tags]
    tags = torch.tensor([SPACE.index[t] for t in ("O", "B-A", "I-A")])[legal_tags() % 3] * MASK
    with head.choosing_among(allowed):
        losses = head.loss(states, MASK, tags)
    for h, path_, length, loss in zip(states, tags.tolist(), LENGTHS, losses, strict=True):
        expected = 0.0
        for i in range(length):
            scores = scores_at(head, both, h[:length], path_[:i])
            expected -= (scores[path_[i]] - scores[allowed].logsumexp(0)).item()
        assert loss.item() == pytest.approx(expected, abs=1e-4)
    losses.sum().backward()
    assert head.project.weight.grad is not None
    assert (head.project.weight.grad.abs().sum(1) > 1e-4).tolist() == allowed.tolist()
    assert not torch.allclose(head.loss(states, MASK, tags), losses)  # outside, all tags count


@both_paths
def test_soft_targets_are_the_probabilities_behind_the_tags_that_the_head_predicts() -> None:
    teacher, student = make(seed=3), make(seed=4)
    teacher.temperature = 1.5
    teacher.restrict(["A"])
    states = states_of()
    soft = teacher.soft_targets(states, MASK, student, temperature=0.8)
    tags = teacher.greedy(states, MASK)
    allowed = torch.tensor([tag == "O" or tag.endswith("-A") for tag in SPACE.tags])
    for b, length in enumerate(LENGTHS):
        for i in range(length):
            logs = teacher.next_tag(states[b : b + 1], MASK[b : b + 1], tags[b : b + 1, :i])[0]
            chances = (logs.double() / (1.5 * 0.8)).exp() * allowed
            torch.testing.assert_close(soft.tokens[b, i].double(), chances / chances.sum(), atol=1e-5, rtol=1e-4)
    assert not soft.tokens[~MASK].any()
    # The loss: behind the teacher's likeliest tags, token by token.
    likely = soft.tokens.argmax(-1)
    for b, length in enumerate(LENGTHS):
        expected = torch.tensor(0.0)
        for i in range(length):
            logs = student.next_tag(states[b : b + 1], MASK[b : b + 1], likely[b : b + 1, :i])[0]
            expected = expected - (soft.tokens[b, i] * logs).sum()
        torch.testing.assert_close(student.soft_loss(states, MASK, soft)[b], expected, atol=1e-4, rtol=1e-4)


@both_paths
def test_sure_soft_targets_are_gold_tags() -> None:
    head, tags = make(), legal_tags()
    sure = functional.one_hot(tags, len(SPACE)).float() * MASK[..., None]
    found = head.soft_loss(states_of(), MASK, SoftTargets.of_tokens(sure))
    torch.testing.assert_close(found, head.loss(states_of(), MASK, tags), atol=1e-5, rtol=1e-5)
