"""A head that knows more types than the target has predicts the target's alone; and how heads of methods start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.errors import ConfigError
from nershift.heads.start import IN_WORDS
from nershift.run import transfer

Make = Callable[..., Any]
QUICK = {"train": {"epochs": 1}, "pretrain": {"epochs": 1}}
SHOWN = {"person", "place"}


def narrowed(corpus: Corpus) -> Corpus:
    return corpus.mapped({t: "O" for t in corpus.types if t not in SHOWN})


def force(run: Any) -> set[str]:
    """The types that the tagger of a run predicts if all types but the target's are by far the likelier."""
    tagger = run.tagger()
    head = tagger.model.head("target")
    assert set(head.types) > SHOWN
    with torch.no_grad():
        for tag, i in head.space.index.items():
            head.project.bias[i] += 50.0 * (bool(tag[2:]) and tag[2:] not in SHOWN) + 5.0 * (tag[2:] in SHOWN)
    return {span.label for s in tagger.tag_sentences(run.predictions()[0]) for span in s.spans}


@pytest.mark.parametrize(("name", "shots"), [("source_only", None), ("aggregate", None), ("aggregate", 0)])
def test_types_that_the_target_lacks_are_never_predicted(
    name: str, shots: int | None, heterogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    source, target = heterogeneous[0], narrowed(heterogeneous[-1])
    run = transfer(name, target, [source], shots=shots, out=tmp_path / "run", config=merge(tiny, QUICK), quiet=True)
    assert set(run.tagger().types) == SHOWN
    assert force(run) <= SHOWN


def test_where_the_target_has_no_labels_all_types_stay(
    make_method: Make, heterogeneous: list[Corpus], homogeneous: list[Corpus]
) -> None:
    source = heterogeneous[0]
    unlabelled = homogeneous[-1].mapped(dict.fromkeys(homogeneous[-1].types, "O"))
    method = make_method("source_only", [source], unlabelled)
    assert method.finish(method.pretrain().model).head("target").predicted_types == tuple(sorted(source.types))


def test_direct_transfer_keeps_the_types_that_it_was_told_to_keep(
    make_method: Make, heterogeneous: list[Corpus]
) -> None:
    source, target = heterogeneous[0], narrowed(heterogeneous[-1])
    method = make_method("direct", [source], target, {"options": {"labels": {"organisation": "organisation"}}})
    head = make_method("source_only", [source], target).source_model().head("shared")
    method.restrict(head)
    assert set(head.predicted_types) == {"organisation", *SHOWN}


@pytest.mark.parametrize(
    ("new_rows", "expected"), [("auto", "random"), ("prototypes", "prototypes"), ("names", "names")]
)
def test_a_head_trained_from_nothing_starts_as_told(
    new_rows: str, expected: str, make_method: Make, heterogeneous: list[Corpus]
) -> None:
    method = make_method("target_only", [], heterogeneous[-1], {"head": {"new_rows": new_rows}})
    head = method.prepare_target(None).head("target")
    assert set(head.new_rows) == set(head.types)
    assert set(head.new_rows.values()) == {IN_WORDS[expected]}


def test_a_start_that_the_head_cannot_follow_is_refused(make_method: Make, heterogeneous: list[Corpus]) -> None:
    settings = {"head": {"kind": "span", "new_rows": "names"}}
    with pytest.raises(ConfigError, match=r"rows of head 'span' cannot start from names(.|\n)*random \| prototypes"):
        make_method("target_only", [], heterogeneous[-1], settings).check()
