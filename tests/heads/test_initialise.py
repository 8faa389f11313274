"""Heads whose types overlap in part: what is carried over, and that nothing else is."""

from __future__ import annotations

import pytest
import torch

from nershift.data.labels import LabelSpace
from nershift.heads.base import make_head
from nershift.heads.crf.head import CRFHead
from nershift.heads.initialise import carry_rows, like_tags

OLD = LabelSpace.of(["LOC", "ORG", "PER"], "BIO")
NEW = LabelSpace.of(["drug", "person", "place"], "BIO")
ORIGIN = {"person": "PER", "place": "LOC"}


def test_tags_and_where_they_come_from() -> None:
    named = [(NEW.tags[a], OLD.tags[b]) for a, b in like_tags(NEW, OLD, ORIGIN)]
    assert named == [
        ("O", "O"),
        ("B-person", "B-PER"),
        ("I-person", "I-PER"),
        ("B-place", "B-LOC"),
        ("I-place", "I-LOC"),
    ]


def test_letters_that_the_old_scheme_lacks_come_from_nowhere() -> None:
    finer = LabelSpace.of(["person"], "BIOES")
    assert {finer.tags[a] for a, _ in like_tags(finer, OLD, ORIGIN)} == {"O", "B-person", "I-person"}


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_rows_of_like_types_are_copied_and_others_left(kind: str) -> None:
    torch.manual_seed(0)
    new, old = make_head(kind, NEW, 6), make_head(kind, OLD, 6)  # type: ignore[arg-type]
    before = {name: value.clone() for name, value in new.state_dict().items()}
    carry_rows(new, old, ORIGIN)
    pairs = like_tags(NEW, OLD, ORIGIN)
    others = [i for i in range(len(NEW)) if i not in {a for a, _ in pairs}]
    for name, value in new.state_dict().items():
        theirs = old.state_dict()[name]
        for a, b in pairs:
            if name == "transitions":
                for c, d in pairs:
                    assert value[a, c] == theirs[b, d]
            else:
                assert torch.equal(value[a], theirs[b])
        for i in others:
            assert torch.equal(value[i], before[name][i])


def test_a_carried_crf_scores_what_it_knows_as_before() -> None:
    """Paths over like types alone differ by the same scores in both."""
    torch.manual_seed(1)
    old, new = CRFHead(OLD, 4), CRFHead(NEW, 4)
    carry_rows(new, old, ORIGIN)
    states = torch.randn(1, 5, 4)
    mask = torch.ones(1, 5, dtype=torch.bool)
    rows = {b: a for a, b in like_tags(NEW, OLD, ORIGIN)}

    def loss(head: CRFHead, path: list[int]) -> torch.Tensor:
        return head.loss(states, mask, torch.tensor([path]))[0]

    index = OLD.index
    paths = [
        [0, index["B-PER"], index["I-PER"], 0, index["B-LOC"]],
        [index["B-LOC"], 0, index["B-PER"], index["I-PER"], index["I-PER"]],
    ]
    known = loss(old, paths[0]) - loss(old, paths[1])
    carried = loss(new, [rows[i] for i in paths[0]]) - loss(new, [rows[i] for i in paths[1]])
    torch.testing.assert_close(carried, known)
