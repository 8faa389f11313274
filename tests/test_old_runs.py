"""Run folders that version 0.1.0 wrote, with its names for heads, settings and methods, still load and tag alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.run import adapt
from nershift.run_folder import Run

RUNS = Path(__file__).parent / "runs_of_0_1"


@pytest.mark.parametrize("name", sorted(p.name for p in RUNS.iterdir()))
def test_they_tag_as_they_did(name: str) -> None:
    if name == "metacross":
        pytest.importorskip("transformers")
    run = Run.open(RUNS / name)
    gold, predicted = run.predictions()
    tagger = run.tagger()
    answers = tagger.adapt_sentences(gold) if tagger.adapter is not None else tagger.tag_sentences(gold)
    assert [s.spans for s in answers] == [s.spans for s in predicted]
    scores = [
        (a.score, b.score)
        for s, t in zip(answers, predicted, strict=True)
        for a, b in zip(s.spans, t.spans, strict=True)
    ]
    assert all(ours == pytest.approx(theirs, abs=1e-4) for ours, theirs in scores)


def test_a_run_starts_from_one(make_corpus: Callable[..., Corpus], tiny: dict[str, Any], tmp_path: Path) -> None:
    config = merge({"train": tiny["train"]}, {"device": "cpu"})
    run = adapt(RUNS / "finetune-carried", make_corpus("clinic"), out=tmp_path / "r", config=config, quiet=True)
    assert any("kept the source's rows for drug, person, place" in note for note in run.metrics["remarks"])
