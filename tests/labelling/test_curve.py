"""Learning curves from runs: nothing runs twice, pre-training is shared, and the report says what was measured."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from nershift.data.corpus import Corpus
from nershift.errors import CheckpointError, ConfigError, SetupError
from nershift.labelling import curve as module
from nershift.labelling.curve import CurveStudy, LearningCurve, default_sizes, measure
from nershift.labelling.curve_report import as_html, as_text, draw, in_words, save, tables, verdict
from nershift.labelling.power_law import PowerLaw
from nershift.run import transfer

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def small(tiny: dict[str, Any]) -> dict[str, Any]:
    tiny["train"]["epochs"] = 1
    return tiny


def made(ceiling: float = 0.8, seeds: int = 3, split: str = "test", **more: Any) -> CurveStudy:
    """A study of two curves, without a run."""
    sizes = (25, 50, 100, 200)
    laws = {"target_only": PowerLaw(ceiling, 1.5, 0.4), "metaner": PowerLaw(ceiling, 0.6, 0.4)}
    curves = [
        LearningCurve(name, sizes, tuple(tuple(law(n) + 0.004 * (s - 1) for n in sizes) for s in range(seeds)))
        for name, law in laws.items()
    ]
    given = {"goals": (0.7, 0.76, 0.9), "selected_on": 20} | more
    return CurveStudy("clinic", split, tuple(range(1, seeds + 1)), tuple(curves), **given)


def test_runs_are_made_once_and_subsets_are_those_of_shots(
    make_corpus: MakeCorpus, small: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    news = make_corpus("news")
    settings: dict[str, Any] = {"config": small, "quiet": True}
    study = measure(["target_only"], news, out=tmp_path, sizes=(20, 10, 40), seeds=(1, 2), **settings)
    (found,) = study.curves
    assert found.sizes == (10, 20, 40)
    assert (study.split, study.selected_on, study.seeds) == ("test", 0, (1, 2))
    alone = transfer("target_only", news, out=tmp_path / "alone", shots=20, seed=2, report=False, **settings)
    assert found.scores[1][1] == alone.f1
    assert not list((tmp_path / "runs").rglob("*.safetensors"))

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished run was run again")

    monkeypatch.setattr("nershift.run_stages.Training.run", refuse)
    assert measure(["target_only"], news, out=tmp_path, sizes=(10, 20, 40), seeds=(1, 2), **settings) == study
    with pytest.raises(AssertionError, match="run again"):
        measure(["target_only"], news, out=tmp_path, sizes=(10, 20, 30), seeds=(1,), **settings)
    other = make_corpus("news", seed=1)
    with pytest.raises(CheckpointError, match="other settings or data"):
        measure(["target_only"], other, out=tmp_path, sizes=(10,), seeds=(1,), **settings)


def test_pretraining_is_shared_where_it_does_not_look_at_the_target(
    make_corpus: MakeCorpus, small: dict[str, Any], tmp_path: Path
) -> None:
    news, clinic = make_corpus("news"), make_corpus("clinic", train=16)
    methods = ["finetune", "multitask", "dann"]
    sources = [news]
    study = measure(
        methods,
        clinic,
        sources,
        out=tmp_path,
        sizes=(4, 16),
        seeds=(1,),
        config=small,
        quiet=True,
        keep_models=True,
    )
    runs = tmp_path / "runs"
    assert {p.parent.name for p in runs.glob("*/pretrained-*")} == {"finetune"}
    whole = transfer(
        "finetune",
        clinic,
        sources,
        out=tmp_path / "whole",
        shots=4,
        seed=1,
        config=small,
        quiet=True,
        report=False,
    )
    both = [(f / "model.safetensors").read_bytes() for f in (whole.folder, runs / "finetune" / "n4-s1")]
    assert both[0] == both[1]
    assert study.curves[0].fit is None  # two sizes
    assert study.reaches(0.9) == {}
    assert [t.key for t in tables(study)] == ["measured"]
    assert verdict(study) == "Too few sizes to fit a curve."


def test_a_method_without_target_labels_is_one_line(
    make_corpus: MakeCorpus, small: dict[str, Any], tmp_path: Path
) -> None:
    news, other = make_corpus("news"), make_corpus("news", seed=5, train=12)
    source = Corpus("source", news.splits)
    study = measure(
        ["target_only", "source_only"],
        other,
        [source],
        out=tmp_path,
        sizes=(4, 8, 12),
        seeds=(1,),
        config=small,
        quiet=True,
    )
    assert study.curves[1].sizes == (0,)
    assert study.curves[1].fit is None
    measured = tables(study)[0]
    assert measured.rows[0][0] == "none"
    assert measured.rows[0][1] == "–"
    assert "<svg" in draw(study)


def test_scored_on_dev_where_there_is_no_test(make_corpus: MakeCorpus, small: dict[str, Any], tmp_path: Path) -> None:
    settings: dict[str, Any] = {"sizes": (10,), "seeds": (1,), "quiet": True}
    selected = small | {"selection": "dev"}
    flattered = measure(["target_only"], make_corpus(test=0), out=tmp_path / "dev", config=selected, **settings)
    assert "too high" in tables(flattered)[0].note
    study = measure(["target_only"], make_corpus(test=0), out=tmp_path, config=small, **settings)
    assert study.split == "dev"
    assert "too high" not in tables(study)[0].note
    metrics = json.loads((tmp_path / "runs" / "target_only" / "n10-s1" / "metrics.json").read_text())
    assert study.curves[0].scores == ((metrics["dev"]["f1"],),)


def test_refused_before_the_first_run(make_corpus: MakeCorpus, tmp_path: Path) -> None:
    news = make_corpus()
    cases: list[tuple[type[Exception], str, dict[str, Any]]] = [
        (SetupError, "neither a test nor a dev split", {"target": make_corpus(dev=0, test=0)}),
        (SetupError, "1 to 40", {"sizes": (10, 41)}),
        (SetupError, "1 to 40", {"sizes": (0, 10)}),
        (ConfigError, "--seed", {"seeds": ()}),
        (ConfigError, "none twice", {"methods": ["target_only", "target_only"]}),
        (ConfigError, "write 0.8 for 80 points", {"goals": (80,)}),
        (SetupError, "at least 1", {"methods": ["target_only", "finetune"]}),
        (ConfigError, "did you mean 'target_only'", {"methods": ["target_olny"]}),
    ]
    for error, message, over in cases:
        given = {"methods": ["target_only"], "target": news} | over
        with pytest.raises(error, match=message):
            measure(given.pop("methods"), given.pop("target"), out=tmp_path / "x", quiet=True, **given)
    assert not (tmp_path / "x").exists()


def test_default_sizes_and_goals() -> None:
    assert default_sizes(1000) == (63, 125, 250, 500, 1000)
    assert default_sizes(5) == (5,)
    assert module._goals(0.712) == (0.75, 0.8)
    assert module._goals(0.75) == (0.8, 0.85)
    assert module._goals(0.93) == (0.95,)
    assert module._goals(1.0) == ()


def test_words_and_tables() -> None:
    study = made()
    told = verdict(study)
    assert "F1 70.00 needs about" in told
    assert "with metaner" in told
    assert "F1 90.00: not reachable by this curve" in told
    by = {(row[0], row[1]): row for row in tables(study)[2].rows}
    assert by["76.00", "target_only"][4] == "beyond twice the data"
    assert by["70.00", "metaner"][4] == "within the data"
    assert by["90.00", "metaner"][2:] == ("–", "∞ – ∞", "not reachable by this curve")
    assert "a guess: more than twice the data" in in_words(study.reaches(0.76)["target_only"])
    assert "20 labelled dev sentences" in tables(study)[0].note


def test_a_curve_that_misses_its_points_is_called_out() -> None:
    jump = LearningCurve("target_only", (10, 20, 40, 80), ((0.1, 0.1, 0.9, 0.9),))
    study = CurveStudy("clinic", "test", (1,), (jump,), (0.95,), 0)
    assert "do not trust it there" in tables(study)[1].note
    assert "do not trust it there" not in tables(made())[1].note


def test_json_page_and_drawing(tmp_path: Path) -> None:
    study = made()
    files = save(study, tmp_path)
    assert [f.name for f in files] == ["curve.json", "curve.html", "curve.svg"]
    told = json.loads(files[0].read_text(), parse_constant=lambda c: pytest.fail(f"{c} is not JSON"))
    assert told["curves"][0]["reach"][2]["sentences"] is None
    assert told["curves"][0]["points"][0]["sentences"] == 25
    assert len(told["curves"][0]["points"][0]["scores"]) == 3
    page = files[1].read_text()
    assert page.count("<svg") == 1
    assert "http" not in page
    assert "script" not in page
    assert files[2].read_text().startswith('<svg xmlns="http://www.w3.org/2000/svg"')


def test_terminal_and_a_name_with_markup() -> None:
    study = made(seeds=1)
    console = Console(width=120, file=io.StringIO())
    with console.capture() as shown:
        console.print(as_text(study))
    text = " ".join(shown.get().split())
    assert "mean ± standard deviation over one seed" in text
    assert "Learning curves on clinic" in text
    odd = CurveStudy("<b>[x]", "test", (1,), study.curves, (0.7,), 0)
    assert "&lt;b&gt;[x]" in as_html(odd)


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert [f.name for f in save(made(), tmp_path)] == ["curve.json", "curve.html"]
    assert "nershift[report]" in (tmp_path / "curve.html").read_text()
