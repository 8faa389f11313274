"""A whole fit on toy corpora: what it writes and never looks at, how it goes on after a kill, and that it repeats."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nershift.auto import fitting as module
from nershift.auto.fit import fit, plan
from nershift.auto.recipe import RECIPES, Recipe, register
from nershift.auto.result import Fit
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, ConfigError, OtherRunError, SetupError
from nershift.reports.run import report_of_run
from nershift.run import transfer
from nershift.tagger.ensemble import Ensemble
from nershift.tagger.tagger import Tagger

SMALL: dict[str, Any] = {
    "encoder": {"words": {"size": 12}, "chars": {"size": 6, "filters": 8}, "recurrent": {"size": 10}},
    "pretrain": {"updates": 20, "batch_size": 8, "lr": 0.02},
    "train": {"updates": 40, "batch_size": 8, "lr": 0.02},
}
MINE = ("tiny_alone", "tiny_after_sources")


@pytest.fixture(scope="module", autouse=True)
def recipes() -> Iterator[None]:
    register(Recipe("tiny_alone", "a tiny model, your labels alone", "target_only", SMALL))
    register(Recipe("tiny_after_sources", "a tiny model, the sources first", "finetune", SMALL, ("labels", "sources")))
    register(Recipe("tiny_zero", "a tiny model, the sources alone", "source_only", SMALL, ("no labels", "sources")))
    yield
    for name in (*MINE, "tiny_zero"):
        RECIPES._parts.pop(name)


@pytest.fixture(scope="module")
def done(make_corpus: Any, tmp_path_factory: Any) -> Fit:
    """One fit that several tests look at."""
    out = tmp_path_factory.mktemp("fit") / "out"
    text = [s.with_spans(()) for s in make_corpus("clinic", train=60, seed=9).train]
    return fit(
        make_corpus("clinic", train=30), [make_corpus("news")], out=out, raw={"target": text}, shots=20,
        minutes=3, encoder="none", recipes=MINE, seed=3,
    )  # fmt: skip


def test_the_folder_is_that_of_a_run(done: Fit) -> None:
    assert done.winner in MINE
    assert done.run.metrics["labelled"] == 20
    assert done.run.metrics["method"] == RECIPES[done.winner].method
    gold, predicted = done.run.predictions()
    assert done.tagger().tag_sentences(gold) == predicted
    assert Tagger.load(done.folder).types == ("drug", "person", "place")
    assert not (done.folder / "work").exists()
    assert Fit.open(done.folder).facts == done.facts


def test_it_says_why(done: Fit) -> None:
    text = "\n".join(done.summary())
    for name in MINE:
        assert name in text
    assert "On test, which was read once" in text
    assert "nershift transfer --method" in text
    report = report_of_run(done.folder)
    assert {row.name for row in report.comparisons} == {r["recipe"] for r in done.facts["tried"] if r["f1"] is not None}
    assert (done.folder / "report.html").exists()
    assert len(done.facts["next"]) == 10


def test_trials_are_of_labels_that_were_held_out(done: Fit) -> None:
    tried = {row["recipe"]: row for row in done.facts["tried"]}
    assert tried[done.winner]["fate"] == "won"
    assert 1 <= tried[done.winner]["trials"] <= 5
    assert done.facts["expected"]["low"] <= tried[done.winner]["f1"] <= done.facts["expected"]["high"]


def test_the_winner_alone_is_what_its_command_trains(make_corpus: Any, tmp_path: Path) -> None:
    """The words of the command, given to the function behind them, make the very same weights."""
    target, news = make_corpus("clinic", train=30), make_corpus("news")
    chosen = fit(
        target, [news], out=tmp_path / "fit", shots=20, minutes=2, encoder="none", recipes=["tiny_after_sources"],
        one_model=True,
    )  # fmt: skip
    assert "--shots 20 --seed 1" in chosen.facts["command"]
    again = transfer("finetune", target, [news], out=tmp_path / "again", shots=20, seed=1, config=SMALL, quiet=True)
    weights = [(folder / "model.safetensors").read_bytes() for folder in (chosen.folder, again.folder)]
    assert weights[0] == weights[1]
    assert chosen.f1 == again.f1


def test_the_same_seed_gives_the_same_tagger(done: Fit, make_corpus: Any, tmp_path: Path) -> None:
    text = [s.with_spans(()) for s in make_corpus("clinic", train=60, seed=9).train]
    again = fit(
        make_corpus("clinic", train=30), [make_corpus("news")], out=tmp_path / "b", raw={"target": text}, shots=20,
        minutes=3, encoder="none", recipes=MINE, seed=3,
    )  # fmt: skip
    assert again.winner == done.winner
    assert [row["f1"] for row in again.facts["tried"]] == [row["f1"] for row in done.facts["tried"]]
    assert (again.folder / "model.safetensors").read_bytes() == (done.folder / "model.safetensors").read_bytes()


def test_the_test_split_chooses_nothing(make_corpus: Any, tmp_path: Path) -> None:
    """With other test labels everything but the test score is the same."""
    target = make_corpus("clinic", train=30)
    empty = replace(target, splits={**target.splits, "test": tuple(s.with_spans(()) for s in target.test)})
    fits = [
        fit(one, out=tmp_path / str(i), shots=15, minutes=2, encoder="none", recipes=["tiny_alone"], one_model=True)
        for i, one in enumerate((target, empty))
    ]
    assert fits[0].facts["tried"] == fits[1].facts["tried"]
    assert (fits[0].folder / "model.safetensors").read_bytes() == (fits[1].folder / "model.safetensors").read_bytes()
    assert fits[1].f1 == 0.0


def test_a_dev_split_judges_where_it_may(make_corpus: Any, tmp_path: Path) -> None:
    made = fit(make_corpus("clinic", train=30), out=tmp_path / "a", minutes=2, encoder="none", recipes=["tiny_alone"])
    assert made.facts["plan"]["situation"]["dev"] == 10
    assert made.run.metrics["selection"] == "best dev F1"
    assert made.run.metrics["labelled"] == 30


def test_without_labels_a_source_plays_the_target(make_corpus: Any, tmp_path: Path) -> None:
    target = make_corpus("news", train=0, dev=0, seed=5)
    sources = [replace(make_corpus("news", seed=i), name=f"news{i}") for i in range(2)]
    made = fit(target, sources, out=tmp_path / "a", minutes=2, encoder="none", recipes=["tiny_zero"])
    assert made.facts["tried"][0]["trials"] in (0, 2)
    assert made.run.metrics["labelled"] == 0
    assert made.tagger().types == ("person", "place")
    assert (made.facts["voters"], made.facts["ballots"]) == (
        ["tiny_zero"],
        [],
    )  # no seed changes what the sources teach


def test_several_taggers_vote_where_it_pays(make_corpus: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module.Ballot, "pays", property(lambda ballot: True))
    target = make_corpus("clinic", train=30)
    made = fit(target, out=tmp_path / "a", shots=12, minutes=5, encoder="none", recipes=["tiny_alone"])
    assert made.facts["voters"] == ["tiny_alone", "tiny_alone@2", "tiny_alone@3"]
    assert len(Ensemble.load([made.folder]).taggers) == 3
    gold, predicted = made.run.predictions()
    assert Ensemble.load([made.folder]).tag_sentences(gold) == predicted
    assert Tagger.load(made.folder).folder == made.folder  # what wants one model gets the winner


def test_a_vote_that_was_not_judged_says_so(make_corpus: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(module.Fitting, "_room_for", lambda *_: False)
    made = fit(
        make_corpus("clinic", train=30), out=tmp_path / "a", shots=12, minutes=5, encoder="none", recipes=["tiny_alone"]
    )
    assert made.facts["voters"] == ["tiny_alone", "tiny_alone@2", "tiny_alone@3"]
    assert made.facts["ballots"][0]["gain"] is None
    assert any("no time to judge the vote here; elsewhere" in reason for reason in made.facts["reasons"])


def test_other_data_or_settings_are_refused(done: Fit, make_corpus: Any, tmp_path: Path) -> None:
    target = make_corpus("clinic", train=30)
    with pytest.raises(OtherRunError, match=r"other data or settings: .*amount"):
        fit(target, [make_corpus("news")], out=done.folder, shots=19, encoder="none", recipes=MINE, seed=3)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(CheckpointError, match="is not empty and holds no fit"):
        fit(target, out=tmp_path / "mine", overwrite=True)
    with pytest.raises(SetupError, match="--minutes"):
        fit(target, out=tmp_path / "none", minutes=0)
    with pytest.raises(ConfigError, match="there is no encoder 'smal'"):
        fit(target, out=tmp_path / "none", encoder="smal", minutes=1)
    with pytest.raises(TypeError, match="minuets"):
        plan(target, minuets=3)


def test_a_recipe_that_fails_does_not_end_the_race(make_corpus: Any, tmp_path: Path) -> None:
    register(Recipe("broken", "nothing", "target_only", {"encoder": {"words": {"vectors": "no such file"}}}))
    try:
        made = fit(
            make_corpus("clinic", train=30), out=tmp_path / "a", shots=12, minutes=2, encoder="none",
            recipes=["tiny_alone", "broken"], one_model=True,
        )  # fmt: skip
    finally:
        RECIPES._parts.pop("broken")
    assert made.winner == "tiny_alone"
    fates = {row["recipe"]: row["fate"] for row in made.facts["tried"]}
    assert fates["broken"].startswith("failed: ")


def test_if_the_best_fails_on_all_labels_the_next_is_kept_and_it_says_so(
    make_corpus: Any, tmp_path: Path, monkeypatch: Any
) -> None:
    best, next_best = "tiny_after_sources", "tiny_alone"

    def order(runners: list[Any]) -> list[Any]:
        return sorted((r for r in runners if not r.failed), key=lambda r: r.name != best)

    def tell(line: str) -> None:
        told.append(line)
        if "a first tagger" in line:  # from now on a file stands where the best would be trained
            (tmp_path / "a" / "work" / "jobs" / f"{best}-final").write_text("")

    told: list[str] = []
    monkeypatch.setattr(module, "final_order", order)
    made = fit(
        make_corpus("clinic", train=30), [make_corpus("news")], out=tmp_path / "a", shots=12, minutes=2,
        encoder="none", recipes=MINE, one_model=True, tell=tell,
    )  # fmt: skip
    assert f"({next_best})" in next(line for line in told if "a first tagger" in line)
    assert made.winner == next_best
    assert any(f"{best} failed when it learned all labels" in line for line in told)
    assert any(r.startswith(f"{best} was judged too, and then failed") for r in made.facts["reasons"])


_SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
import test_fit
from nershift.auto.recipe import Recipe, register
from nershift.data.formats import read_corpus
slow = dict(test_fit.SMALL, train=dict(test_fit.SMALL["train"], updates=80))
register(Recipe("tiny_alone", "a", "target_only", slow))
register(Recipe("tiny_after_sources", "b", "finetune", slow, ("labels", "sources")))
from nershift.auto.fit import fit
done = fit(read_corpus({target!r}), [read_corpus({source!r})], out={out!r}, shots=20, minutes=5, encoder="none",
           recipes=["tiny_alone", "tiny_after_sources"], one_model=True, tell=lambda line: print(line, flush=True))
print("FINISHED", done.winner)
"""


def test_killed_in_the_race_it_goes_on_without_repeating(make_corpus: Any, tmp_path: Path) -> None:
    from nershift.data.formats import write_corpus

    for name, corpus in (("clinic", make_corpus("clinic", train=30)), ("news", make_corpus("news"))):
        write_corpus(tmp_path / name, corpus)
    script = tmp_path / "run.py"
    places = {"target": str(tmp_path / "clinic"), "source": str(tmp_path / "news"), "out": str(tmp_path / "out")}
    script.write_text(_SCRIPT.format(tests=str(Path(__file__).parent), **places))
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stdout is not None
    for line in process.stdout:
        if " after 1 of 5" in line:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    jobs = tmp_path / "out" / "work" / "jobs"
    time.sleep(1.0)  # workers end with the pipe that they read from
    finished = {path.parent.name: path.stat().st_mtime_ns for path in jobs.glob("*/metrics.json")}
    assert finished
    plan_before = (tmp_path / "out" / "work" / "plan.json").read_text()
    again = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=240)
    assert "FINISHED tiny_" in again.stdout, again.stderr
    facts = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert facts["plan"]["candidates"] == json.loads(plan_before)["candidates"]
    first = again.stdout.index("plan  ")
    told = [line for line in again.stdout[first:].splitlines() if " s  tiny_" in line]
    assert len(told) >= len(finished) - 1  # finished trials are read, and told at once
    third = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60)
    assert "holds this fit already" in third.stdout


def test_ctrl_c_keeps_the_best_so_far(make_corpus: Any, tmp_path: Path, monkeypatch: Any) -> None:
    told: list[str] = []

    def tell(line: str) -> None:
        told.append(line)
        if "a first tagger is in" in line:
            raise KeyboardInterrupt

    made = fit(
        make_corpus("clinic", train=30), out=tmp_path / "a", shots=12, minutes=2, encoder="none",
        recipes=["tiny_alone"], tell=tell,
    )  # fmt: skip
    assert not made.facts["finished"]
    assert "The fit was interrupted" in " ".join(made.facts["reasons"])
    assert made.tagger().tag_sentences([Sentence.of(["Ada"])])
    done = fit(
        make_corpus("clinic", train=30), out=tmp_path / "a", shots=12, minutes=2, encoder="none", recipes=["tiny_alone"]
    )
    assert done.facts["finished"]


def test_a_tagger_goes_on_with_new_labels(done: Fit, make_corpus: Any, tmp_path: Path) -> None:
    """It keeps the types that it knew, and learns those of the new labels."""
    target = make_corpus("clinic", train=30, seed=4)
    made = fit(
        target, out=tmp_path / "a", shots=12, minutes=2, encoder="none", recipes=["continue_tagger"], start=done.folder
    )
    assert made.winner == "continue_tagger"
    assert set(made.tagger().types) == {"person", "place", "drug"}
    assert made.f1 > 0.5
    with pytest.raises(SetupError, match="no recipe can do anything"):
        fit(target, out=tmp_path / "b", shots=12, minutes=2, recipes=["continue_tagger"])


def test_a_race_on_a_cluster(make_corpus: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    target = make_corpus("clinic", train=30)
    common: dict[str, Any] = {"shots": 12, "minutes": 10, "encoder": "none", "recipes": ["tiny_alone"]}
    there = fit(target, out=tmp_path / "a", ray="local", workers=2, one_model=True, **common)
    here = fit(target, out=tmp_path / "b", workers=2, one_model=True, **common)
    assert there.facts["tried"][0]["f1"] == here.facts["tried"][0]["f1"]
    assert (there.folder / "model.safetensors").read_bytes() == (here.folder / "model.safetensors").read_bytes()


def test_a_plan_trains_nothing(make_corpus: Any) -> None:
    made = plan(make_corpus("clinic", train=30), [make_corpus("news")], shots=20, encoder="none", minutes=5)
    assert made.situation.labelled == 20
    assert {c.recipe.name for c in made.candidates} >= {"target_only"}


def test_a_pretrained_encoder_is_published_whole(make_corpus: Any, tmp_path: Path) -> None:
    """Its files lie in a folder of their own, which goes when another tagger takes the place of this one."""
    pytest.importorskip("transformers")
    from tiny_encoders import make_encoder_folder

    encoder = make_encoder_folder("bert", tmp_path / "bert")
    register(Recipe("tiny_encoder", "a tiny encoder", "target_only", {"train": {"updates": 20}}, ("labels", "encoder")))
    try:
        made = fit(
            make_corpus("clinic", train=30), out=tmp_path / "a", shots=8, minutes=4, encoder=str(encoder),
            recipes=["tiny_encoder"], one_model=True,
        )  # fmt: skip
    finally:
        RECIPES._parts.pop("tiny_encoder")
    assert made.winner == "tiny_encoder"
    assert (made.folder / "encoder" / "config.json").exists()
    gold, predicted = made.run.predictions()
    assert made.tagger().tag_sentences(gold) == predicted
