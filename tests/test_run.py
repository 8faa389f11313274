from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift.config import Config, build, to_yaml
from nershift.data.corpus import Corpus
from nershift.data.formats import write_corpus
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, ConfigError, DataError, SetupError
from nershift.evaluation.metrics import score
from nershift.methods import METHODS
from nershift.run import adapt, pretrain, resolve, transfer
from nershift.run_folder import Run

MakeCorpus = Callable[..., Corpus]
FILES = {
    "config.yaml",
    "log.jsonl",
    "manifest.json",
    "metrics.json",
    "model.json",
    "model.safetensors",
    "predictions.jsonl",
}
FILES |= {"report.html", "report.json", "report.md", "state"}  # state: what a longer training goes on from


@pytest.fixture
def news(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("news")


@pytest.fixture
def clinic(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("clinic")


def test_a_run_folder(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["train"]["epochs"] = 10
    run = transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True, seed=5)
    assert {p.name for p in run.folder.iterdir()} == FILES
    assert run.f1 > 0.8
    gold, predicted = run.predictions()
    assert gold == list(news.test)
    assert score(gold, predicted).f1 == pytest.approx(run.f1)
    assert run.tagger().tag_sentences(news.test) == predicted
    assert run.metrics["phases"]["train"]["steps"] == 50
    assert run.metrics["seed"] == 5
    assert run.metrics["test"]["interval"][0] <= run.f1 <= run.metrics["test"]["interval"][1]
    written = yaml.safe_load((run.folder / "config.yaml").read_text())
    data = written.pop("data")
    assert data["target"] == "news"
    assert build(Config, written) == replace(resolve("target_only", tiny, 5), selection="dev")
    log = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert [e["epoch"] for e in log] == list(range(1, 11))
    assert max(e["dev_f1"] for e in log) == run.metrics["phases"]["train"]["dev_f1"]
    assert Run.open(run.folder).metrics == run.metrics


def test_the_seed_decides(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        transfer("target_only", news, out=tmp_path / name, config=tiny, quiet=True, seed=seed)
    a, b, c = ((tmp_path / name / "model.safetensors").read_bytes() for name in "abc")
    assert a == b != c


def test_a_finished_run_returns_at_once(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    first = transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True)
    times = {p: p.stat().st_mtime_ns for p in (tmp_path / "r").iterdir() if p.name != "config.yaml"}
    began = time.monotonic()
    again = transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True)
    assert time.monotonic() - began < 1
    assert again == first
    assert {p: p.stat().st_mtime_ns for p in times} == times
    (tmp_path / "r" / "report.html").unlink()  # as if killed between the results and the end
    assert transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True) == first
    assert {p.name for p in (tmp_path / "r").iterdir()} == FILES


def test_other_settings_or_data_are_refused_unless_overwritten(
    news: Corpus, clinic: Corpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True)
    tiny["train"]["lr"] = 0.5
    with pytest.raises(CheckpointError, match=r"(?s)other settings or data.*lr: 0.02.*lr: 0.5") as error:
        transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True)
    assert "--overwrite" in error.value.fix
    tiny["train"]["lr"] = 0.02
    with pytest.raises(CheckpointError, match="target_digest"):
        transfer("target_only", news.with_splits(test=news.test[:3]), out=tmp_path / "r", config=tiny, quiet=True)
    with pytest.raises(CheckpointError, match="shots"):
        transfer("target_only", news, out=tmp_path / "r", config=tiny, shots=5, quiet=True)
    run = transfer("target_only", clinic, out=tmp_path / "r", config=tiny, overwrite=True, quiet=True)
    assert run.metrics["target"] == "clinic"


def test_a_folder_that_no_run_wrote_is_never_touched(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(CheckpointError, match="not empty and holds no run"):
            transfer("target_only", news, out=tmp_path, config=tiny, overwrite=overwrite, quiet=True)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_what_a_killed_start_left_does_not_block(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / ".config.yaml.123.tmp").write_text("half")
    assert transfer("target_only", news, out=tmp_path, config=tiny, quiet=True).metrics
    assert {p.name for p in tmp_path.iterdir()} == FILES


def test_a_cut_checkpoint_is_named(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "r" / "state").mkdir(parents=True)
    transfer("target_only", news, out=tmp_path / "other", config=tiny, quiet=True)
    (tmp_path / "r" / "config.yaml").write_bytes((tmp_path / "other" / "config.yaml").read_bytes())
    (tmp_path / "r" / "state" / "train.checkpoint.safetensors").write_bytes(b"\x08\x00\x00")
    with pytest.raises(CheckpointError, match="not a readable safetensors file"):
        transfer("target_only", news, out=tmp_path / "r", config=tiny, quiet=True)


def test_shots_and_ratio(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    few = transfer("target_only", news, out=tmp_path / "a", config=tiny, shots=7, quiet=True)
    assert few.metrics["labelled"] == 7
    half = transfer("target_only", news, out=tmp_path / "b", config=tiny, ratio=0.5, quiet=True)
    assert half.metrics["labelled"] == 20
    with pytest.raises(SetupError, match="no sentences to train on"):
        transfer("target_only", news, out=tmp_path / "c", config=tiny, shots=0, quiet=True)


def test_splits_may_be_missing(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    run = transfer("target_only", make_corpus(dev=0, test=0), out=tmp_path / "a", config=tiny, quiet=True)
    assert run.metrics["selection"] == "last"
    with pytest.raises(CheckpointError, match="no test split"):
        _ = run.f1
    with pytest.raises(DataError, match="no 'train' split"):
        transfer("target_only", make_corpus(train=0), out=tmp_path / "b", config=tiny, quiet=True)


def test_two_phases_at_once_or_one_by_one(news: Corpus, clinic: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    run = transfer("finetune", clinic, [news], out=tmp_path / "both", config=tiny, quiet=True)
    assert list(run.metrics["phases"]) == ["pretrain", "train"]
    start = pretrain("finetune", [news], out=tmp_path / "start", config=tiny, quiet=True)
    assert pretrain("finetune", [news], out=tmp_path / "start", config=tiny, quiet=True) == start
    assert not (start / "state").exists()
    tiny.pop("encoder")  # comes from the folder
    adapted = adapt(start, clinic, out=tmp_path / "adapted", config=tiny, quiet=True)
    both, adapted_weights = ((f / "model.safetensors").read_bytes() for f in (run.folder, adapted.folder))
    assert both == adapted_weights
    with pytest.raises(CheckpointError, match="holds no target head"):
        Run(start, {}).tagger()
    with pytest.raises(CheckpointError, match="no model here"):
        adapt(tmp_path / "absent", clinic, out=tmp_path / "x", quiet=True)


def test_what_follows_a_pre_training_has_its_preset(
    news: Corpus, clinic: Corpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    other = next(name for name in METHODS["finetune"].presets if name != "paper")
    start = pretrain("finetune", [news], out=tmp_path / "start", config=tiny | {"preset": other}, quiet=True)
    tiny.pop("preset")
    first = adapt(start, clinic, out=tmp_path / "first", config=tiny, quiet=True)
    second = adapt(first.folder, clinic, out=tmp_path / "second", config=tiny, quiet=True)
    asked = adapt(start, clinic, out=tmp_path / "asked", config=tiny | {"preset": "paper"}, quiet=True)
    assert [run.metrics["preset"] for run in (first, second, asked)] == [other, other, "paper"]


def test_a_run_says_what_it_started_from(news: Corpus, clinic: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    start = pretrain("finetune", [news], out=tmp_path / "start", config=tiny, quiet=True)
    first = adapt(start, clinic, out=tmp_path / "first", shots=30, config=tiny, quiet=True)
    assert first.metrics["start"]["kind"] == "pretraining"
    assert first.metrics["sources"] == ["news"]
    told = "Started from the pretraining in 'start' (method finetune; sources: news)."
    assert told in first.metrics["remarks"]
    assert told in (first.folder / "report.md").read_text().replace("\\", "")
    second = adapt(first.folder, clinic, out=tmp_path / "second", shots=10, config=tiny, quiet=True)
    origin = second.metrics["start"]
    assert (origin["kind"], origin["target"], origin["labelled"]) == ("finished run", "clinic", 30)
    assert second.metrics["labelled"] == 10
    assert any("30 labelled sentences of clinic" in remark for remark in second.metrics["remarks"])
    plain = transfer("target_only", clinic, out=tmp_path / "plain", config=tiny, quiet=True)
    assert plain.metrics["start"] is None
    assert plain.metrics["remarks"] == []


def test_test_sentences_that_a_source_holds_are_told(
    news: Corpus, clinic: Corpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    tiny["train"]["max_steps"] = tiny["pretrain"]["max_steps"] = 2
    ours = {s.tokens for s in clinic.test[:4]}
    several = sum(s.tokens in ours for s in clinic.test)  # some are there twice
    short = [Sentence.of(["No", "change", "."])]
    leaky = news.with_splits(train=[*news.train, *clinic.test[:4], *short])
    target = clinic.with_splits(test=[*clinic.test, *short])
    run = transfer("finetune", target, [leaky], out=tmp_path / "r", config=tiny, quiet=True)
    told = f"{several} of 11 test sentences are in the training text of source 'news'"
    assert any(remark.startswith(told) for remark in run.metrics["remarks"])
    assert told in (run.folder / "report.md").read_text()
    for name, source in (("finetune", news), ("target_only", leaky)):
        run = transfer(name, target, [source], out=tmp_path / name, config=tiny, quiet=True)
        assert not any("training text" in remark for remark in run.metrics["remarks"])


def test_set_ups_that_cannot_work(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="given 0 source corpora"):
        transfer("finetune", news, out=tmp_path / "a", config=tiny, quiet=True)
    with pytest.raises(SetupError, match="source names repeat"):
        transfer("finetune", news, [news, news], out=tmp_path / "b", config=tiny, quiet=True)
    with pytest.raises(SetupError, match="learns sources and target together"):
        pretrain("target_only", [news], out=tmp_path / "c", config=tiny, quiet=True)
    with pytest.raises(ConfigError, match="did you mean 'finetune'"):
        transfer("fintune", news, out=tmp_path / "d", quiet=True)
    with pytest.raises(ConfigError, match="no preset 'fast'"):
        transfer("target_only", news, out=tmp_path / "e", config={"preset": "fast"}, quiet=True)
    with pytest.raises(ConfigError, match="unknown setting 'x'"):
        transfer("target_only", news, out=tmp_path / "f", config={"options": {"x": 1}}, quiet=True)


def test_arguments_of_the_wrong_kind(news: Corpus, clinic: Corpus, tmp_path: Path) -> None:
    given: list[tuple[dict[str, Any], str, str]] = [
        ({"target": "corpora/clinic"}, "target: found str 'corpora/clinic'", "read_corpus('corpora/clinic')"),
        ({"target": Path("clinic")}, "target: found PosixPath", "read_corpus('clinic')"),
        ({"target": None}, "target: found NoneType None", "read_corpus(path)"),
        ({"sources": news}, "sources: Corpus 'news' by itself", "sources=[corpus]"),
        ({"sources": "corpora/news"}, "sources: found str", "read_corpus(path), …]"),
        ({"sources": [news, "court"]}, "sources[1]: found str 'court'", "read_corpus('court')"),
        ({"shots": "10"}, "shots: found str '10'", "ratio="),
        ({"shots": 2.5}, "shots: found float 2.5", "ratio="),
        ({"ratio": "0.5"}, "ratio: found str '0.5'", ""),
    ]
    for changed, found, fix in given:
        arguments: dict[str, Any] = {"target": clinic, "sources": [news], "out": tmp_path / "r"}
        with pytest.raises(SetupError) as caught:
            transfer("finetune", **(arguments | changed))
        assert str(caught.value).startswith(found)
        assert fix in caught.value.fix
    with pytest.raises(SetupError, match="sources: Corpus 'news' by itself"):
        pretrain("finetune", news, out=tmp_path / "r")  # type: ignore[arg-type]
    assert not (tmp_path / "r").exists()


def test_a_target_named_like_a_module_attribute(
    news: Corpus, clinic: Corpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    sources = [Corpus("train", news.splits), Corpus("v1.2", clinic.splits)]
    assert transfer("finetune", clinic, sources, out=tmp_path / "r", config=tiny, quiet=True).metrics


@pytest.mark.slow
def test_interrupted_from_the_keyboard(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    tiny["train"] |= {"epochs": 15, "checkpoint_steps": 1}
    write_corpus(tmp_path / "news", news, "jsonl")
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(tiny))
    path = os.pathsep.join([str(Path(__file__).resolve().parents[1] / "src"), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"}

    def start(out: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from nershift.cli import main; main()", "train", "--quiet"]
        command += ["--target", str(tmp_path / "news"), "--config", str(tmp_path / "c.yaml")]
        command += ["--out", str(tmp_path / out)]
        return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    whole, cut = start("whole"), start("cut")
    state = tmp_path / "cut" / "state" / "train.checkpoint.safetensors"
    while cut.poll() is None and not state.exists():
        time.sleep(0.01)
    cut.send_signal(signal.SIGINT)
    _, message = cut.communicate(timeout=60)
    assert cut.returncode == 130, message
    assert "stopped in stage 'train'" in message
    assert "run the same command again" in message
    assert "Traceback" not in message
    assert state.exists()
    for process in (whole, start("cut")):
        assert process.wait(timeout=120) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stderr.close()
    for file in ("model.safetensors", "log.jsonl"):
        assert (tmp_path / "cut" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_defaults_then_preset_then_settings() -> None:
    config = resolve("target_only", {"train": {"epochs": 7}}, seed=3)
    assert (config.train.epochs, config.train.lr, config.seed, config.method) == (7, 2e-3, 3, "target_only")
    assert "epochs: 7" in to_yaml(config)


def test_two_methods_at_once_are_refused() -> None:
    assert resolve("target_only", {"method": "target_only"}).method == "target_only"
    with pytest.raises(ConfigError, match="settings say 'finetune', but the method of this run is 'target_only'"):
        resolve("target_only", {"method": "finetune"})


def test_an_encoder_that_would_not_be_used_is_an_error() -> None:
    with pytest.raises(ConfigError, match="'bert' was named, but") as error:
        resolve("finetune", {"encoder": {"transformer": {"name": "bert"}}})
    assert error.value.fix == "--set encoder.kind=transformer, or omit the name"
    for settings in ({"kind": "transformer", "transformer": {"name": "bert"}}, {"kind": "recurrent"}, {}):
        resolve("laner", {"encoder": settings})


@pytest.mark.parametrize(("part", "kind", "meant"), [("encoder", "transfomer", "transformer"), ("head", "crff", "crf")])
def test_parts_that_do_not_exist_are_refused(part: str, kind: str, meant: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'") as error:
        resolve("finetune", {part: {"kind": kind}})
    assert error.value.place == f"config.{part}.kind"
