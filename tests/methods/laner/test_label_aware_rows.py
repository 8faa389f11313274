"""Rows of new types: exact copies of types that are the same, and no two alike among those that only start alike."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nershift.data.labels import LabelSpace
from nershift.methods.laner.fast.check import margins
from nershift.methods.laner.fast.fixed_point import fixed_point
from nershift.methods.laner.head import LabelAwareHead, LabelAwareSettings
from nershift.methods.laner.rows import OWN, carry_over

SIZE = 16


def made(*types: str, seed: int) -> LabelAwareHead:
    torch.manual_seed(seed)
    return LabelAwareHead(LabelSpace.of(types, "BIO"), SIZE, LabelAwareSettings(label_size=8)).requires_grad_(False)


def learned() -> LabelAwareHead:
    """Of types a and b, with weights large enough for the labels before to matter."""
    head = made("a", "b", seed=0)
    for p in head.parameters():
        nn.init.uniform_(p, -1, 1)
    return head.eval()


def rows(head: LabelAwareHead, tag: str) -> Tensor:
    """All that is the tag's own, in one row."""
    i, project = head.space.index[tag], head.project
    return torch.cat([project.weight[i], project.bias[i : i + 1], head.labels.weight[i]])


def test_types_of_one_origin_differ_and_the_same_type_is_an_exact_copy() -> None:
    old, new, random = learned(), *(made("a", "c", "d", "e", "f", seed=1) for _ in range(2))
    carry_over(new, old, {"a": "a"}, {"c": "a", "d": "a", "e": "b"})
    for letter in "BI":
        a, b = rows(old, f"{letter}-a"), rows(old, f"{letter}-b")
        assert torch.equal(rows(new, f"{letter}-a"), a)
        assert torch.equal(rows(new, f"{letter}-e"), b)  # nobody else starts as b
        assert torch.equal(rows(new, f"{letter}-f"), rows(random, f"{letter}-f"))
        for label in "cd":
            own = rows(random, f"{letter}-{label}")
            torch.testing.assert_close(rows(new, f"{letter}-{label}"), (1 - OWN) * a + OWN * own)
    assert torch.equal(rows(new, "O"), rows(old, "O"))
    assert torch.equal(new.labels.weight[-1], old.labels.weight[-1])
    assert len(new.labels.weight.unique(dim=0)) == len(new.labels.weight)
    assert len(new.project.weight.unique(dim=0)) == len(new.project.weight)


def test_decoding_is_greedy_where_unseen_types_start_alike() -> None:
    """With equal rows about every third tag here would be a tie."""
    new = made("a", "b", "c", "d", "e", "f", seed=1).eval()
    carry_over(new, learned(), {"a": "a", "b": "b"}, dict.fromkeys("cdef", "a"))
    mask = torch.arange(20) < torch.tensor([20, 13, 1, 20, 7, 18])[:, None]
    chosen = set[str]()
    for seed in range(5):
        states = torch.randn(*mask.shape, SIZE, generator=torch.Generator().manual_seed(seed))
        expected = new.greedy(states, mask)
        assert torch.equal(fixed_point(new, states, mask).tags, expected)
        assert margins(new, states, mask, expected).min() > 1e-6
        chosen |= {new.space.tags[i] for i in expected[mask].tolist()}
    assert len(chosen & {f"B-{t}" for t in "acdef"}) > 2
