"""Heads whose types overlap in part: what is carried over, and that nothing else is."""

from __future__ import annotations

import pytest
import torch

from nershift.data.labels import LabelSpace
from nershift.heads.base import make_head, start_from_best
from nershift.heads.crf.head import CRFHead
from nershift.heads.tags import matching_tags

OLD = LabelSpace.of(["LOC", "ORG", "PER"], "BIO")
NEW = LabelSpace.of(["drug", "person", "place"], "BIO")
ORIGIN = {"person": "PER", "place": "LOC"}


def test_tags_and_where_they_come_from() -> None:
    named = [(NEW.tags[a], OLD.tags[b]) for a, b in matching_tags(NEW, OLD, ORIGIN)]
    assert named == [
        ("O", "O"),
        ("B-person", "B-PER"),
        ("I-person", "I-PER"),
        ("B-place", "B-LOC"),
        ("I-place", "I-LOC"),
    ]


def test_letters_that_the_old_scheme_lacks_come_from_nowhere() -> None:
    finer = LabelSpace.of(["person"], "BIOES")
    assert {finer.tags[a] for a, _ in matching_tags(finer, OLD, ORIGIN)} == {"O", "B-person", "I-person"}


def test_the_head_that_shares_most_types_is_taken_and_what_was_kept_is_known() -> None:
    poor, rich = make_head("crf", LabelSpace.of(["PER"], "BIO"), 6), make_head("crf", OLD, 6)
    new = make_head("crf", NEW, 6)
    mapping = start_from_best(new, [poor, rich], {"place": "LOC"})
    assert dict(mapping) == dict(new.kept_rows) == ORIGIN
    assert mapping.unmapped == ("drug",)
    assert torch.equal(new.project.weight[NEW.index["B-place"]], rich.project.weight[OLD.index["B-LOC"]])


def test_a_head_of_another_kind_teaches_nothing() -> None:
    new = make_head("softmax", NEW, 6)
    before = new.project.weight.detach().clone()
    assert not start_from_best(new, [make_head("crf", OLD, 6)], {})
    assert torch.equal(new.project.weight, before)
    assert not new.kept_rows


def test_a_span_head_keeps_its_layers_and_the_rows_of_like_types() -> None:
    new, old = make_head("span", NEW, 6), make_head("span", OLD, 6)
    fresh = new.project.weight[NEW.types.index("drug")].detach().clone()
    assert new.start_from(old, ORIGIN)
    assert torch.equal(new.first.weight, old.first.weight)
    assert torch.equal(new.project.weight[NEW.types.index("place")], old.project.weight[OLD.types.index("LOC")])
    assert torch.equal(new.project.weight[NEW.types.index("drug")], fresh)
    assert not new.start_from(make_head("span", OLD, 6, {"hidden": 3}), ORIGIN)


@pytest.mark.parametrize("kind", ["crf", "softmax"])
def test_rows_of_like_types_are_copied_and_others_left(kind: str) -> None:
    torch.manual_seed(0)
    new, old = make_head(kind, NEW, 6), make_head(kind, OLD, 6)
    before = {name: value.clone() for name, value in new.state_dict().items()}
    assert new.start_from(old, ORIGIN)
    pairs = matching_tags(NEW, OLD, ORIGIN)
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
    assert new.start_from(old, ORIGIN)
    states = torch.randn(1, 5, 4)
    mask = torch.ones(1, 5, dtype=torch.bool)
    rows = {b: a for a, b in matching_tags(NEW, OLD, ORIGIN)}

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
