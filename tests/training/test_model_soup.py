from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from nershift.config import Config, build, merge
from nershift.data.corpus import Corpus
from nershift.errors import Interrupted
from nershift.model_store import load_model
from nershift.run import pretrain, transfer
from nershift.run_folder import averaged, idle
from nershift.training.loop import Loop
from nershift.training.model_soup import ModelSoup
from nershift.training.processes import Processes

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def run(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> Callable[..., Path]:
    """A fine-tuned tagger: its folder. Sources and target are the same in all runs."""

    def make(name: str, method: str = "finetune", dev: int = 10, **over: Any) -> Path:
        corpus = make_corpus("clinic", dev=dev)
        config = merge(tiny, over)
        sources = () if method == "target_only" else [make_corpus("news")]
        return transfer(method, corpus, sources, out=tmp_path / name, config=config, seed=3, quiet=True).folder

    return make


def _weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: p.detach() for name, p in load_model(folder)[0].named_parameters()}


def _phases(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "metrics.json").read_text())["phases"])


def _kept(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, torch.Tensor]]:
    """The weights with which each stage ends, by its name, as runs go on."""
    kept: dict[str, dict[str, torch.Tensor]] = {}
    run_loop = Loop.run

    def kept_run(self: Loop) -> Any:
        result = run_loop(self)
        kept[self.stage.name] = {k: v.detach().clone() for k, v in self.stage.model.named_parameters()}
        return result

    monkeypatch.setattr(Loop, "run", kept_run)
    return kept


@pytest.mark.parametrize("method", ["finetune", "target_only", "multitask"])
def test_without_dev_the_result_is_the_mean_of_all_trainings(run, monkeypatch, method: str) -> None:
    kept = _kept(monkeypatch)
    folder = run("mean", method, dev=0, train={"model_soup": 3})
    names = ["train", "train-2", "train-3"]
    for key, value in _weights(folder).items():
        each = [kept[name][key] for name in names]
        assert torch.allclose(value, torch.stack(each).mean(0), atol=1e-6), key
    changed = [k for k in kept["train"] if not torch.equal(kept["train"][k], kept["train-2"][k])]
    assert changed, "the second training drew as the first"
    told = _phases(folder)
    assert told["average of train"] == {"of": names, "dev_f1": None}
    said = "The weights are the mean of 3 of 3 trainings from the same start (train, train-2, train-3)"
    said += ": no dev split chose."
    assert said in json.loads((folder / "metrics.json").read_text())["remarks"]
    assert "3 trainings from the same start" in (folder / "report.md").read_text()
    assert set(told) - {"pretrain"} == {*names, "average of train"}


def test_the_first_training_is_the_one_of_a_plain_run(run, monkeypatch) -> None:
    kept = _kept(monkeypatch)
    run("three", train={"model_soup": 2})
    first = kept["train"]
    plain = run("plain")
    assert all(torch.equal(first[name], value) for name, value in _weights(plain).items())
    assert _phases(plain).keys() == {"pretrain", "train"}


def test_trainings_start_from_the_same_weights(run, monkeypatch) -> None:
    starts: list[dict[str, torch.Tensor]] = []
    run_loop = Loop.run

    def started(self: Loop) -> Any:
        if self.stage.name.startswith("train"):
            starts.append({k: v.detach().clone() for k, v in self.stage.model.named_parameters()})
        return run_loop(self)

    monkeypatch.setattr(Loop, "run", started)
    run("starts", train={"model_soup": 3})
    assert len(starts) == 3
    for later in starts[1:]:
        assert all(torch.equal(value, later[name]) for name, value in starts[0].items())


def test_dev_says_which_trainings_take_part(run) -> None:
    told = _phases(run("chosen", train={"model_soup": 3, "epochs": 4}))
    average = told["average of train"]
    each = {name: told[name]["dev_f1"] for name in ("train", "train-2", "train-3")}
    assert average["dev_f1"] >= max(each.values())
    assert each[average["of"][0]] == max(each.values())


def test_what_dev_chose_is_told() -> None:
    stages = {
        "pretrain": {},
        "train": {},
        "train-2": {},
        "average of train": {"of": ["train-2"], "dev_f1": 0.5},
    }
    assert averaged(stages) == [
        "The weights are those of one of 2 trainings from the same start (train-2), as dev chose."
    ]
    both = {
        "pretrain": {},
        "pretrain-2": {},
        "average of pretrain": {"of": ["pretrain", "pretrain-2"], "dev_f1": 0.5},
    }
    assert averaged(both)[0].startswith("The weights that training started from are the mean of 2 of 2 trainings")
    assert averaged({"pretrain": {}, "train": {}}) == []


def test_settings_of_a_phase_that_there_is_not_are_told(run) -> None:
    folder = run("joint", "multitask", pretrain={"fgm_epsilon": 0.5, "model_soup": 3}, train={"model_soup": 2})
    told = json.loads((folder / "metrics.json").read_text())["remarks"]
    assert "There was no pre-training in this run: pretrain.model_soup, pretrain.fgm_epsilon had no effect." in told
    asked = build(Config, {"train": {"mention_replacement": 0.2}})
    assert idle(asked, {"pretrain": {}}) == [
        "There was no training on the target in this run: train.mention_replacement had no effect."
    ]
    assert idle(asked, {"pretrain": {}, "train": {}}) == []


def test_one_that_lowers_the_score_stays_out(monkeypatch: pytest.MonkeyPatch) -> None:
    soup, mixed = ModelSoup(), list[str]()
    soup.scores = {"a": 0.6, "b": 0.75, "c": 0.1, "d": 0.7}
    soup.weights = {name: {} for name in soup.scores}
    monkeypatch.setattr(soup, "_put", lambda names: mixed.append("".join(names)))
    average = soup.average(lambda: {"bd": 0.7, "ba": 0.8, "bac": 0.9}[mixed[-1]])
    assert average == {"of": ["b", "a", "c"], "dev_f1": 0.9}
    assert mixed == ["bd", "ba", "bac", "bac"]


def test_a_stopped_run_goes_on_where_it_was(run, monkeypatch) -> None:
    settings = {"train": {"model_soup": 3, "epochs": 3}}
    whole = run("whole", **settings)
    steps, stop_asked = [0], Processes.stop_asked

    def stops(self: Processes) -> bool:
        steps[0] += 1
        return steps[0] == 25 or stop_asked(self)  # 5 of pre-training, 15 of the first: in the second

    monkeypatch.setattr(Processes, "stop_asked", stops)
    with pytest.raises(Interrupted, match="'train-2'"):
        run("cut", **settings)
    assert _phases(run("cut", **settings)) == _phases(whole)
    assert (whole.parent / "cut" / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert (whole.parent / "cut" / "log.jsonl").read_text() == (whole / "log.jsonl").read_text()


def test_pre_trainings_can_be_averaged_too(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    config = merge(tiny, {"pretrain": {"model_soup": 2}})
    folder = pretrain("finetune", [make_corpus("news")], out=tmp_path / "pre", config=config, quiet=True)
    told = json.loads((folder / "model.json").read_text())
    assert "average of pretrain" in json.dumps(told)
