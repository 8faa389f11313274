"""Teacher and student: who teaches, what is learned in which round, resuming, and what is refused."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml
from torch import Tensor

from nershift.cli import app, spread
from nershift.config import merge
from nershift.data.builtin import builtin_corpus
from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.distillation import distil
from nershift.errors import ConfigError, Interrupted, NershiftError, SetupError
from nershift.evaluation.metrics import score
from nershift.evaluation.vote import vote
from nershift.methods.teacher_student.teacher import Teacher
from nershift.resume_run import resume
from nershift.run import pretrain, resolve, transfer
from nershift.run_folder import Run
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes

sys.path.insert(0, str(Path(__file__).parents[2]))
from tiny_encoders import make_encoder_folder

Make = Callable[..., Any]
ALONE: dict[str, Any] = {"train": {"epochs": 15, "updates": 0}}
QUICK: dict[str, Any] = {"pretrain": {"epochs": 12}, "train": {"epochs": 0, "updates": 8}, "options": {"batch_size": 8}}


@pytest.fixture(scope="session")
def text() -> list[Sentence]:
    """Unlabelled sentences of the target's domain."""
    corpus = builtin_corpus("clinic")
    return [s.with_spans(()) for s in corpus.train[100:190]]


@pytest.fixture
def quick(tiny: dict[str, Any]) -> dict[str, Any]:
    return merge(tiny, QUICK)


@pytest.fixture
def teacher_run(homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path) -> Path:
    run = transfer("target_only", homogeneous[-1], out=tmp_path / "teacher", config=merge(tiny, ALONE), quiet=True)
    return run.folder


def zero(target: Corpus) -> Corpus:
    return target.with_splits(train=())


@pytest.mark.parametrize("targets", ["soft", "hard"])
@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_without_target_labels_the_sources_own_model_teaches(
    targets: str, kind: str, homogeneous: list[Corpus], quick: dict[str, Any], text: list[Sentence], tmp_path: Path
) -> None:
    *sources, target = homogeneous
    config = merge(quick, {"head": {"kind": kind}, "options": {"targets": targets, "rounds": 2, "keep": 0.7}})
    run = transfer(
        "teacher_student", zero(target), sources, out=tmp_path / "run", raw={"target": text}, config=config, quiet=True
    )
    assert list(run.metrics["phases"]) == ["pretrain", "train"]
    stage = run.metrics["phases"]["train"]
    assert (stage["rounds"], stage["dev_f1"]) == (2, None)
    assert 0 <= stage["agreement"] <= 1
    assert run.metrics["labelled"] == 0
    assert set(run.tagger().types) == {"person", "place"}
    assert (run.folder / "report.html").exists()


@pytest.mark.parametrize("with_sources", [False, True])
def test_few_labels_make_the_teacher_first(
    with_sources: bool, heterogeneous: list[Corpus], quick: dict[str, Any], text: list[Sentence], tmp_path: Path
) -> None:
    *sources, target = heterogeneous
    config = merge(quick, {"options": {"teacher_updates": 7, "rounds": 3}})
    run = transfer(
        "teacher_student",
        target,
        sources if with_sources else (),
        out=tmp_path / "run",
        raw={"target": text},
        config=config,
        shots=10,
        quiet=True,
    )
    phases = run.metrics["phases"]
    assert list(phases) == [*(["pretrain"] if with_sources else []), "teach", "train"]
    assert (phases["teach"]["steps"], phases["train"]["steps"]) == (7, 8)
    assert run.metrics["labelled"] == 10
    assert set(run.tagger().types) == set(target.types)


def test_the_teacher_learns_as_the_same_run_without_text(
    homogeneous: list[Corpus], quick: dict[str, Any], text: list[Sentence], make_method: Make, tmp_path: Path
) -> None:
    """Updates of the two stages are those of `target_only`, so its teacher is that method's tagger."""
    target = homogeneous[-1]
    config = merge(quick, {"options": {"teacher_updates": 12}, "train": {"updates": 12}})
    method = make_method("teacher_student", [], target, config, raw={"target": text})
    alone = make_method("target_only", [], target, {k: v for k, v in config.items() if k != "options"})
    folders = [tmp_path / name for name in ("taught", "alone")]
    models = []
    for folder, stage in zip(folders, (method.teach(None), alone.train(None)), strict=True):
        folder.mkdir()
        stage.name = "train"  # names seed
        with Processes("cpu") as processes, TrainLogger(folder, quiet=True) as logger:
            Loop(stage, folder, processes, logger).run()
        models.append({n: p.detach() for n, p in stage.model.named_parameters()})
    assert all(torch.equal(p, models[1][n]) for n, p in models[0].items())


def test_folders_teach_a_student_of_another_architecture(
    homogeneous: list[Corpus],
    tiny: dict[str, Any],
    quick: dict[str, Any],
    text: list[Sentence],
    teacher_run: Path,
    tmp_path: Path,
) -> None:
    """A recurrent ensemble and then a transformer in the other place; no label of the target is needed."""
    target = homogeneous[-1]
    second = transfer("target_only", target, out=tmp_path / "second", config=merge(tiny, ALONE), seed=2, quiet=True)
    folders = [str(teacher_run), str(second.folder)]
    unlabelled = Corpus("clinic", {"test": target.test})
    encoder = {"kind": "transformer", "transformer": {"name": str(make_encoder_folder("bert", tmp_path / "bert"))}}
    config = merge(quick, {"encoder": encoder, "options": {"teacher": folders}})
    run = transfer("teacher_student", unlabelled, out=tmp_path / "big", raw={"target": text}, config=config, quiet=True)
    assert list(run.metrics["phases"]) == ["train"]
    assert set(run.tagger().types) == {"person", "place"}
    config = merge(quick, {"options": {"teacher": [str(run.folder)]}, "head": {"kind": "crf"}})
    small = transfer(
        "teacher_student", unlabelled, out=tmp_path / "small", raw={"target": text}, config=config, quiet=True
    )
    assert small.tagger().model.encoder.kind == "recurrent"


def test_several_teachers_are_averaged_and_vote(
    homogeneous: list[Corpus], tiny: dict[str, Any], text: list[Sentence], teacher_run: Path, tmp_path: Path
) -> None:
    target, folders = homogeneous[-1], [teacher_run]
    for seed in (2, 3):
        out = tmp_path / f"teacher{seed}"
        folders.append(
            transfer("target_only", target, out=out, config=merge(tiny, ALONE), seed=seed, quiet=True).folder
        )
    teacher = Teacher.load([str(folder) for folder in folders])
    student = Teacher.load([str(teacher_run)]).heads[0]
    read = teacher.label(text, student)
    each = [Teacher([model]).label(text, student) for model in teacher.models]
    assert read.sentences == vote([one.sentences for one in each])
    for i in range(len(text)):
        for part in (0, 1):
            expected = np.mean([one.soft[i][part] for one in each], axis=0)
            assert np.allclose(read.soft[i][part], expected, atol=1e-6)


@pytest.fixture
def able(tiny: dict[str, Any], tmp_path: Path) -> tuple[Path, list[Sentence], Corpus]:
    """A teacher that finds something, text for it, and the corpus without labels that it is from."""
    news = builtin_corpus("news")
    learned = Corpus("news", {"train": news.train[:150], "test": news.test[:10]})
    run = transfer("target_only", learned, out=tmp_path / "able", config=merge(tiny, ALONE), quiet=True)
    return run.folder, [s.with_spans(()) for s in news.train[150:]], Corpus("news", {"test": news.test[:20]})


def test_the_student_comes_to_agree_with_its_teacher(
    able: tuple[Path, list[Sentence], Corpus], quick: dict[str, Any], tmp_path: Path
) -> None:
    folder, text, target = able
    options = {"teacher": [str(folder)], "stop": "agreement", "batch_size": 16}
    config = merge(quick, {"options": options, "train": {"updates": 120, "lr": 0.02}})
    run = transfer("teacher_student", target, out=tmp_path / "run", raw={"target": text}, config=config, quiet=True)
    assert run.metrics["selection"] == "best agreement with the teacher"
    scores = [e["agreement"] for e in _log(run)]
    assert run.metrics["phases"]["train"]["agreement"] == scores[-1]
    assert max(scores) > 0.6
    assert scores[0] < 0.5
    taggers = [Run.open(folder).tagger(), run.tagger()]
    theirs, ours = ([s.spans for s in t.tag_sentences(target.test)] for t in taggers)
    assert sum(map(len, theirs)) > 10
    assert sum(a == b for a, b in zip(theirs, ours, strict=True)) > len(ours) / 2


def test_patience_ends_training_on_agreement(
    able: tuple[Path, list[Sentence], Corpus], quick: dict[str, Any], tmp_path: Path
) -> None:
    folder, text, target = able
    options = {"teacher": [str(folder)], "stop": "agreement"}
    config = merge(quick, {"options": options, "train": {"updates": 400, "lr": 0.05, "patience": 40}})
    run = transfer("teacher_student", target, out=tmp_path / "run", raw={"target": text}, config=config, quiet=True)
    assert run.metrics["phases"]["train"]["steps"] < 400


def _log(run: Run) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]


# -- one stage -------------------------------------------------------------------------------------------


def _stage(make_method: Make, homogeneous: list[Corpus], text: Any, settings: dict[str, Any], start: Any = None) -> Any:
    method = make_method("teacher_student", homogeneous[:1], zero(homogeneous[-1]), settings, raw={"target": text})
    return method.train(start if start is not None else method.pretrain().model)


def test_rounds_label_with_the_moving_average_of_the_student(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence], tiny: dict[str, Any], tmp_path: Path
) -> None:
    settings = {"train": {"epochs": 0, "updates": 60}, "options": {"rounds": 3, "batch_size": 8, "decay": 0.9}}
    stage = _stage(make_method, homogeneous, text, settings)
    seen: list[tuple[int, dict[str, Tensor]]] = []
    draw, begun = stage.draw, dict[int, dict[str, Tensor]]()

    def watched(step: int, *rest: int) -> Any:
        seen.append((step, {n: p.detach().clone() for n, p in stage.model.named_parameters() if p.requires_grad}))
        batches = draw(step, *rest)
        begun.setdefault(stage.round, dict(stage.labeller))
        return batches

    stage.draw = watched
    with Processes("cpu") as processes, TrainLogger(tmp_path, quiet=True) as logger:
        Loop(stage, tmp_path, processes, logger).run()
    assert [stage.first_step(r) for r in (1, 2, 3)] == [0, 20, 40]
    assert begun[1] == {}  # the source's model labels first
    for round, first in ((2, 0), (3, 20)):
        expected = {n: p.clone() for n, p in seen[first][1].items()}
        for step, now in seen[first : first + 20]:
            if step % 10 == 0:
                for n, p in expected.items():
                    p.lerp_(now[n], 1 - 0.9**10)
        assert all(torch.allclose(begun[round][n], p) for n, p in expected.items())


def test_gold_labels_take_their_share_of_the_updates(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    for share in (0.0, 0.25, 0.6, 1.0):
        settings = {"train": {"updates": 40, "epochs": 0}, "options": {"gold_share": share, "batch_size": 8}}
        stage = _stage(make_method, homogeneous, text, settings)
        names = [next(iter(stage.draw(step, 0, 1))) for step in range(40)]
        assert sum(name != "text" for name in names) == round(40 * share)


def test_every_sentence_of_the_text_is_learned_from_but_those_held_out(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    settings = {"train": {"updates": 40, "epochs": 0}, "options": {"gold_share": 0.0, "batch_size": 8}}
    stage = _stage(make_method, homogeneous, text, settings)
    held = [text[i].tokens for i in stage.held]
    batches = math.ceil((len(text) - len(held)) / 8)
    drawn = [s.tokens for step in range(batches) for s in stage.draw(step, 0, 1)["text"].sentences]
    assert sorted(drawn + held) == sorted(s.tokens for s in text)
    assert held


@pytest.mark.parametrize("targets", ["soft", "hard"])
def test_stopped_and_resumed_equals_never_stopped(
    targets: str, make_method: Make, homogeneous: list[Corpus], text: list[Sentence], tmp_path: Path
) -> None:
    """In every round, also after the student's average has taken over as the teacher."""
    path = tmp_path / "text.txt"
    path.write_text("".join(" ".join(s.tokens) + "\n" for s in text))
    settings = {
        "train": {"epochs": 0, "updates": 36, "checkpoint_seconds": 0},
        "options": {"rounds": 3, "keep": 0.6, "batch_size": 8, "targets": targets, "sentences": 60},
    }

    def run(folder: Path, stop_at: int = -1) -> dict[str, Tensor]:
        folder.mkdir(exist_ok=True)
        stage = _stage(make_method, homogeneous, RawText(path), settings)
        with Processes("cpu") as processes, TrainLogger(folder, quiet=True) as logger:
            draw = stage.draw
            stage.draw = lambda step, *rest: setattr(processes, "_stop", step == stop_at) or draw(step, *rest)
            Loop(stage, folder, processes, logger).run()
        return {n: p.detach().clone() for n, p in stage.model.named_parameters() if p.requires_grad}

    whole = run(tmp_path / "whole")
    for stop_at in (0, 7, 11, 12, 19, 30):
        with pytest.raises(Interrupted):
            run(tmp_path / "parts", stop_at)
    resumed = run(tmp_path / "parts")
    assert {name for name, value in whole.items() if not torch.equal(value, resumed[name])} == set()
    assert (tmp_path / "parts/log.jsonl").read_bytes() == (tmp_path / "whole/log.jsonl").read_bytes()


def test_a_finished_run_trains_on(
    homogeneous: list[Corpus], quick: dict[str, Any], text: list[Sentence], tmp_path: Path
) -> None:
    config = merge(quick, {"options": {"rounds": 2, "teacher_updates": 5}})
    raw = {"target": text}
    transfer("teacher_student", homogeneous[-1], out=tmp_path / "run", raw=raw, config=config, shots=10, quiet=True)
    longer = resume(tmp_path / "run", homogeneous[-1], updates=4, raw=raw, quiet=True)
    assert longer.metrics["phases"]["train"]["steps"] == 12
    assert longer.metrics["phases"]["train"]["rounds"] == 2


def test_pretraining_once_serves_a_target(
    homogeneous: list[Corpus], quick: dict[str, Any], text: list[Sentence], tmp_path: Path
) -> None:
    *sources, target = homogeneous
    start = pretrain("source_only", sources, out=tmp_path / "start", config={k: quick[k] for k in ("device", "preset", "encoder", "pretrain")}, quiet=True)  # fmt: skip  # noqa: E501
    raw = {"target": text}
    parts = transfer(
        "teacher_student", zero(target), out=tmp_path / "parts", start=start, raw=raw,
        config=merge(quick, {"options": {"gold_share": 0.0}}), quiet=True,
    )  # fmt: skip
    whole = transfer(
        "teacher_student", zero(target), sources, out=tmp_path / "whole", raw=raw,
        config=merge(quick, {"options": {"gold_share": 0.0}}), quiet=True,
    )  # fmt: skip
    assert parts.predictions() == whole.predictions()


def test_the_rest_of_the_training_sentences_is_read_if_asked(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    options = {"rest_of_train": True}
    method = make_method("teacher_student", [], homogeneous[-1], {"options": options}, unlabelled=text[:20])
    assert [s.tokens for s in method.candidates()] == [s.tokens for s in text[:20]]
    method = make_method(
        "teacher_student", [], homogeneous[-1], {"options": options}, unlabelled=text[:20], raw={"target": text[20:50]}
    )
    assert len(method.candidates()) == 50
    with pytest.raises(SetupError, match="rest_of_train"):
        make_method("teacher_student", [], homogeneous[-1], {}, unlabelled=text[:20]).check()


def test_text_is_spread_evenly_and_long_sentences_are_cut(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    settings = {"options": {"sentences": 30}, "train": {"max_tokens": 4}}
    method = make_method("teacher_student", [], homogeneous[-1], settings, raw={"target": text})
    parts = method.candidates()
    assert [t for s in parts for t in s.tokens] == [t for s in text[:: -(-len(text) // 30)] for t in s.tokens]
    assert max(map(len, parts)) <= 4


def test_a_fresh_student_starts_from_other_weights(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    stages = [_stage(make_method, homogeneous, text, {"options": {"student": s}}) for s in ("warm", "fresh")]
    for stage, same in zip(stages, (True, False), strict=True):
        theirs, ours = stage.teacher.models[0].encoder.recurrent, stage.model.encoder.recurrent
        assert torch.equal(next(theirs.parameters()), next(ours.parameters())) == same


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"options": {"keep": 0.0}}, "nothing to learn from"),
        ({"options": {"stop": "sources"}}, "no source has a dev split"),
        ({"options": {"teacher": ["nowhere"]}}, "no model here"),
    ],
)
def test_impossible_settings_are_refused(
    settings: dict[str, Any], match: str, make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    with pytest.raises(NershiftError, match=match):
        make_method("teacher_student", [], homogeneous[-1], settings, raw={"target": text}).check()


def test_without_teacher_labels_or_sources_there_is_nothing_to_learn(
    make_method: Make, homogeneous: list[Corpus], text: list[Sentence]
) -> None:
    with pytest.raises(SetupError, match="no sources"):
        make_method("teacher_student", [], zero(homogeneous[-1]), {}, raw={"target": text}).check()


def test_a_teacher_that_cannot_teach_this_student_is_refused(
    make_method: Make, heterogeneous: list[Corpus], homogeneous: list[Corpus], teacher_run: Path, text: list[Sentence]
) -> None:
    options: dict[str, Any] = {"teacher": [str(teacher_run)]}
    raw = {"target": text}
    with pytest.raises(SetupError, match="does not know"):
        make_method("teacher_student", [], heterogeneous[-1], {"options": options}, raw=raw).check()
    settings = {"options": options, "head": {"kind": "span"}}
    method = make_method("teacher_student", [], homogeneous[-1], settings, raw=raw)
    with pytest.raises(SetupError, match=r"head\.kind=crf"):
        method.train(None)
    hard = merge(settings, {"options": {"targets": "hard"}})
    assert make_method("teacher_student", [], homogeneous[-1], hard, raw=raw).train(None) is not None


def test_settings_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"options\.rounds"):
        resolve("teacher_student", {"options": {"rounds": 0}})


# -- from large taggers to a small one -------------------------------------------------------------------


def test_distilling_several_runs_into_one(
    able: tuple[Path, list[Sentence], Corpus], quick: dict[str, Any], tmp_path: Path
) -> None:
    folder, text, target = able
    config = merge(quick, {"train": {"updates": 60, "lr": 0.02}, "options": {"batch_size": 16}})
    run = distil([folder, folder], text, out=tmp_path / "run", target=target, config=config, quiet=True)
    found = run.metrics["distillation"]
    assert found["teacher_weights"] > found["student_weights"] > 0
    assert min(found["teacher_words_per_second"], found["student_words_per_second"]) > 0
    assert found["teacher_test_f1"] == evaluate_model(folder, target)
    assert any("words/s" in note for note in run.metrics["remarks"])
    assert (run.folder / "report.html").exists()
    assert run.tagger().types == Run.open(folder).tagger().types
    again = distil([folder, folder], text, out=tmp_path / "run", target=target, config=config, quiet=True)
    assert again.metrics == run.metrics


def evaluate_model(folder: Path, target: Corpus) -> float:
    return score(target.test, Run.open(folder).tagger().tag_sentences(target.test)).f1


@pytest.mark.parametrize("kind", ["crf", "softmax", "span"])
def test_the_student_takes_the_teachers_kind_of_head_and_no_corpus_is_needed(
    kind: str, homogeneous: list[Corpus], tiny: dict[str, Any], quick: dict[str, Any], text: Any, tmp_path: Path
) -> None:
    head = {"kind": kind, "options": {"max_width": 4} if kind == "span" else {}}
    teacher = transfer(
        "target_only", homogeneous[-1], out=tmp_path / "teacher", config=merge(tiny, {"head": head}), quiet=True
    )
    run = distil([teacher.folder], text, out=tmp_path / "run", config=quick, quiet=True)
    theirs, ours = (r.tagger().model.head("target").describe() for r in (teacher, run))
    assert ours == {k: v for k, v in theirs.items() if k != "temperature"}
    assert "test" not in run.metrics
    assert (run.folder / "report.html").exists()


def test_distilling_on_the_command_line(
    able: tuple[Path, list[Sentence], Corpus], quick: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, text, _ = able
    parts = tmp_path / "a.txt", tmp_path / "b.txt"
    for path, some in zip(parts, (text[:100], text[100:]), strict=True):
        path.write_text("".join(" ".join(s.tokens) + "\n" for s in some))
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(quick))
    asked = ["distil", "--teacher", str(folder), str(folder), "--raw", *map(str, parts), "--out", str(tmp_path / "run")]
    with pytest.raises(SystemExit) as ended:
        app(spread([*asked, "--config", str(tmp_path / "config.yaml"), "--quiet"]))
    assert ended.value.code == 0
    assert "Student and teacher agree" in capsys.readouterr().out.replace("\n", " ")
    settings = yaml.safe_load((tmp_path / "run/config.yaml").read_text())
    assert settings["options"]["teacher"] == [str(folder)] * 2


def test_what_is_no_student_is_refused(able: tuple[Path, list[Sentence], Corpus], tmp_path: Path) -> None:
    folder, text, _ = able
    for student in ("small", "transformer", "transformer:", "recurrent:x"):
        with pytest.raises(ConfigError, match=r"recurrent \| transformer:NAME"):
            distil([folder], text, out=tmp_path / "run", student=student)
    with pytest.raises(SetupError, match="list of folders"):
        distil(folder, text, out=tmp_path / "run")  # type: ignore[arg-type]
