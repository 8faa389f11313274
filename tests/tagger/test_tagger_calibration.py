"""Temperatures of real heads: fitted on dev, kept in the folder, and without effect on what is tagged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from nershift import Tagger
from nershift.cli import app
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelSpace
from nershift.data.spans import Sentence, Span
from nershift.evaluation.calibration import confidences_and_truth, log_loss
from nershift.heads.base import HEADS, make_head, pad_targets
from nershift.run import transfer
from nershift.run_folder import Run

MakeCorpus = Callable[..., Corpus]


@pytest.fixture(scope="module")
def run(make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A tagger that was trained on too little, so that it errs."""
    settings = {
        "device": "cpu",
        "encoder": {"words": {"size": 8}, "chars": {"filters": 8}, "recurrent": {"size": 8}, "dropout": 0.1},
        "train": {"epochs": 7, "batch_size": 8, "lr": 0.02},
    }
    corpus = make_corpus("clinic", train=40, dev=150, test=40)
    out = tmp_path_factory.mktemp("calibrated") / "r"
    return transfer("target_only", corpus, out=out, config=settings, quiet=True)


@pytest.mark.parametrize("kind", HEADS)
def test_a_temperature_changes_confidences_and_nothing_else(kind: str) -> None:
    torch.manual_seed(0)
    space = LabelSpace.of(["LOC", "PER"], "BIO")
    head = make_head(kind, space, 6).eval()
    states, mask = torch.randn(3, 5, 6), torch.ones(3, 5).bool()
    gold = Sentence.of(list("abcde"), [(0, 2, "LOC"), (3, 4, "PER")])
    targets = pad_targets([head.targets(gold)] * 3, mask)
    spans = [[Span(0, 2, "LOC")], [Span(1, 2, "PER"), Span(3, 5, "LOC")], []]

    def told_at(temperature: float) -> list[float]:
        head.temperature = temperature
        return [c for row in head.confidences(states, mask, spans) for c in row]

    torch.manual_seed(1)
    before = (head.predict(states, mask), head.loss(states, mask, targets).tolist())
    plain = told_at(1.0)
    hot, flat = told_at(3.0), told_at(1e6)
    assert not np.allclose(plain, hot)
    torch.manual_seed(1)
    assert before == (head.predict(states, mask), head.loss(states, mask, targets).tolist())
    if kind in ("softmax", "prototypes", "label-aware") and kind != "prototypes":
        assert flat == pytest.approx([len(space) ** -2, len(space) ** -1, len(space) ** -2], rel=1e-3)


def test_a_chain_at_a_temperature_is_the_chain_with_all_scores_divided() -> None:
    torch.manual_seed(0)
    head, cooled = (make_head("crf", LabelSpace.of(["LOC"], "BIO"), 4) for _ in range(2))
    cooled.load_state_dict({k: v / 2.5 for k, v in head.state_dict().items()})
    head.temperature = 2.5
    states, mask = torch.randn(2, 4, 4), torch.ones(2, 4).bool()
    spans = [[Span(0, 1, "LOC"), Span(2, 4, "LOC")], [Span(1, 3, "LOC")]]
    one, other = (d.confidences(states, mask, spans) for d in (head, cooled))
    assert [c for row in one for c in row] == pytest.approx([c for row in other for c in row], rel=1e-5)


def test_the_temperature_is_the_best_of_a_grid(run: Run, make_corpus: MakeCorpus) -> None:
    tagger = run.tagger()
    dev = make_corpus("clinic", train=40, dev=150, test=40).dev
    made = tagger.calibrate(dev)
    assert made is not None
    head = tagger.model.head(tagger.key)

    def loss(temperature: float) -> float:
        head.temperature = temperature
        confidences, right = confidences_and_truth(dev, tagger.tag_sentences(dev))
        good = right.sum()
        return log_loss(confidences, np.where(right, (good + 1) / (good + 2), 1 / (len(right) - good + 2)))

    assert loss(made.temperature) <= min(loss(t) for t in np.geomspace(0.25, 8, 60)) + 1e-4
    assert made.after.nll <= made.before.nll + 1e-6
    assert made.before.n == made.after.n


def test_a_run_keeps_its_temperature_and_says_what_it_did(run: Run) -> None:
    told_of = run.metrics["calibration"]
    described = json.loads((run.folder / "model.json").read_text())
    tagger = run.tagger()
    head = tagger.model.head(tagger.key)
    assert head.temperature == told_of["temperature"] != 1.0
    assert described["heads"]["target"]["temperature"] == told_of["temperature"]
    assert tagger.meta["calibration"]["thresholds"] == told_of["thresholds"]
    assert set(told_of["test"]) == set(told_of["dev"]) == {"before", "after"}
    assert told_of["dev"]["after"]["nll"] <= told_of["dev"]["before"]["nll"]
    gold, predicted = run.predictions()
    confidences, _ = confidences_and_truth(gold, predicted)
    assert len(confidences) == told_of["test"]["after"]["n"]
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Reliability" in page
    assert f"{100 * told_of['test']['after']['ece']:.2f}" in page


def test_old_folders_have_no_temperature(run: Run, tmp_path: Path) -> None:
    for file in ("model.safetensors", "model.json"):
        (tmp_path / file).write_bytes((run.folder / file).read_bytes())
    described: dict[str, Any] = json.loads((tmp_path / "model.json").read_text())
    del described["heads"]["target"]["temperature"], described["meta"]["calibration"]
    (tmp_path / "model.json").write_text(json.dumps(described))
    old, new = Tagger.load(tmp_path), run.tagger()
    assert old.model.head("target").temperature == 1.0
    gold = run.predictions()[0]
    ours, theirs = new.tag_sentences(gold), old.tag_sentences(gold)
    assert [s.spans for s in ours] == [s.spans for s in theirs]  # scores do not count in equality
    warm, raw = new.predict_uncalibrated(gold)
    assert [x.score for s in raw for x in s.spans] == pytest.approx(
        [x.score for s in theirs for x in s.spans], abs=1e-6
    )
    assert [x.score for s in warm for x in s.spans] == pytest.approx([x.score for s in ours for x in s.spans], abs=1e-6)
    shown = CliRunner().invoke(app, ["thresholds", "--model", str(tmp_path)])
    assert "was not calibrated" in str(shown.exception)


def test_nothing_found_leaves_the_temperature_alone(run: Run) -> None:
    tagger = run.tagger()
    assert tagger.calibrate([Sentence.of(["since", "12/3"])] * 2) is None or "calibration" in tagger.meta
    assert tagger.calibrate([]) is None
    assert tagger.model.head(tagger.key).temperature == 1.0


def test_the_command_tells_thresholds(run: Run, make_corpus: MakeCorpus, tmp_path: Path) -> None:
    from nershift.data.formats import write_sentences

    stored = CliRunner().invoke(app, ["thresholds", "--model", str(run.folder)])
    assert stored.exit_code == 0, stored.output
    assert "80.00" in stored.output
    file = tmp_path / "more.jsonl"
    write_sentences(file, make_corpus("clinic", train=300, seed=5).train)
    asked = ["thresholds", "--model", str(run.folder), "--file", str(file), "--precision", "0.5", "--json"]
    made = CliRunner().invoke(app, asked)
    assert made.exit_code == 0, made.output
    (row,) = json.loads(made.stdout)
    assert row["precision"] == 0.5
    assert row["confidence"] is None or 0 <= row["confidence"] <= 1
    wrong = CliRunner().invoke(app, ["thresholds", "--model", str(run.folder), "--precision", "0.5"])
    assert "--file" in str(wrong.exception)
