"""MetaCross and direct transfer: runs from corpora to a tagger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_runs import make_source, make_target, small

from nershift import Tagger
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, ConfigError, SetupError
from nershift.evaluation.metrics import share_changed
from nershift.methods.metacross.support import SupportIndex
from nershift.run import pretrain, resolve, transfer
from nershift.run_folder import Run
from nershift.storage import load_tensors, save_tensors

pytest.importorskip("transformers")
Make = Callable[..., Any]
MakeCorpus = Callable[..., Corpus]


@pytest.mark.parametrize("preset", ["paper", "released", "sgd"])
def test_a_run_adapts_to_every_test_sentence(
    source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path, preset: str
) -> None:
    settings["options"] = {"adapt_lr": 0.05}
    run = transfer(
        "metacross",
        target,
        [source],
        out=tmp_path / "r",
        config={**settings, "preset": preset},
        quiet=True,
        report=False,
    )
    found = run.metrics["test_adaptation"]
    assert 0 <= found["tokens_changed"] <= 1
    tagger = run.tagger()
    gold, pred = run.predictions()
    assert [s.spans for s in tagger.adapt_sentences(gold)] == [s.spans for s in pred]
    assert isinstance(tagger.adapter, SupportIndex)
    assert tagger.adapter.options.rule == {"paper": "adam"}.get(preset, preset)


@pytest.fixture(scope="module")
def trained(encoder: Path, make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = merge(small(encoder), {"pretrain": {"max_steps": 30, "epochs": 30}, "options": {"adapt_lr": 0.03}})
    out = tmp_path_factory.mktemp("trained") / "r"
    source, target = make_source(make_corpus), make_target(make_corpus)
    return transfer("metacross", target, [source], out=out, config=config, quiet=True, report=False).folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Run:
    return Run.open(shutil.copytree(trained, tmp_path / "r"))


def test_the_tagger_says_what_it_looked_at(run: Run, source: Corpus) -> None:
    tagger = Tagger.load(run.folder)
    text = "Okafor flew from Leeds to Porto ."
    (near,) = tagger.neighbours(text)
    assert len(near) == 2
    assert len(tagger.neighbours(f"{text} {text}")) == 2
    assert near[0].similarity >= near[1].similarity > 0.5
    assert {n.sentence.tokens for n in near} <= {s.tokens for s in source.train}
    assert near[0].sentence.spans
    entities = tagger.adaptive(text)
    assert all(text[e.start : e.end] == e.text for e in entities)
    assert tagger.adaptive([text, "", text]) == [entities, [], entities]
    tokens = Sentence.of(text.split())
    assert [s.label for s in tagger.adapt_sentences([tokens])[0].spans] == [e.label for e in entities]


def test_predict_with_adaptation(run: Run, tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from nershift.cli import app

    (tmp_path / "t.txt").write_text("Okafor flew from Leeds to Porto .\n\nRuiz met Ada in Graz .\n")
    args = ["predict", "--model", str(run.folder), str(tmp_path / "t.txt"), "--adapt"]
    done = CliRunner().invoke(app, [*args, "--why"])
    assert done.exit_code == 0, done.output
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(line["neighbours"]) for line in lines] == [1, 0, 1]
    assert set(lines[0]["neighbours"][0][0]) == {"text", "entities", "similarity"}
    expected = Tagger.load(run.folder).adaptive(lines[0]["text"])
    assert [(e["start"], e["label"]) for e in lines[0]["entities"]] == [(e.start, e.label) for e in expected]
    assert "neighbours" not in CliRunner().invoke(app, args).stdout


def test_a_tagger_without_support_says_so(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    run = transfer("target_only", make_corpus("news"), out=tmp_path / "r", config=tiny, quiet=True, report=False)
    with pytest.raises(CheckpointError, match="no labelled sentences"):
        run.tagger().adaptive("Ada flew .")


def test_a_run_says_what_adaptation_changed(run: Run) -> None:
    gold, after = run.predictions()
    before = run.tagger().tag_sentences(gold)
    changed = share_changed(before, after)
    assert run.metrics["test_adaptation"]["tokens_changed"] == changed
    assert (changed > 0) == any(a.spans != b.spans for a, b in zip(before, after, strict=True))


def test_the_rate_is_chosen_on_the_dev_splits_of_the_sources(
    source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path
) -> None:
    settings["options"] |= {"rule": "sgd", "adapt_lrs": [1000.0, 1e-6]}  # the first ruins the model
    settings["pretrain"] |= {"max_steps": 30, "epochs": 30}
    done = transfer("metacross", target, [source], out=tmp_path / "r", config=settings, quiet=True, report=False)
    adapter = done.tagger().adapter
    assert adapter is not None
    assert adapter.measures() == {"rate": 1e-6}
    blind = Corpus("blind", {"train": source.train})
    with pytest.raises(SetupError, match="no dev split"):
        transfer("metacross", target, [blind], out=tmp_path / "b", config=settings, quiet=True, report=False)


def test_a_broken_support(run: Run) -> None:
    path = run.folder / "support.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "sentences": body["sentences"][1:]}))
    with pytest.raises(CheckpointError, match=r"support\.json: has"):
        run.tagger()
    (run.folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match="vectors for"):
        run.tagger()
    path.write_text("{}")
    with pytest.raises(CheckpointError, match="missing or wrong"):
        run.tagger()
    path.write_text(json.dumps(body))
    tensors, _ = load_tensors(run.folder / "support.safetensors")
    tensors["index"][0, 0] = float("nan")
    save_tensors(run.folder / "support.safetensors", tensors, {})
    with pytest.raises(CheckpointError, match="no finite numbers"):
        run.tagger()


def test_a_folder_of_an_earlier_version(run: Run) -> None:
    """Its file has a block `settings` where today's has `options`, and still loads."""
    gold, pred = run.predictions()
    (run.folder / "manifest.json").unlink()
    path = run.folder / "support.json"
    body = json.loads(path.read_text())
    options = body.pop("options")
    rule = {"kind": options["rule"], "rate": options["adapt_lr"], "clip": options["clip"], "decay": 0.0}
    settings = {"neighbours": 2, "pooling": "cls", "centre": False, "rule": rule, "memory": 4.0, "precision": "fp32"}
    path.write_text(json.dumps({"settings": settings, "own_table": body["own_table"], "sentences": body["sentences"]}))
    tagger = run.tagger()
    assert tagger.adapter is not None
    assert tagger.adapter.measures() == {"rate": 0.03}
    assert tagger.adapt_sentences(gold) == pred


def test_one_pretraining_serves_several_targets(
    source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path
) -> None:
    settings["options"] |= {"vectors": "words"}
    folder = pretrain("metacross", [source], out=tmp_path / "p", config=settings, quiet=True)
    assert not (folder / "support-encoder").exists()  # the table is the tagger's own
    made = {}
    for method, more in (("metacross", {}), ("metacross-few", {"ratio": 0.5})):
        made[method] = transfer(
            method,
            target,
            start=folder,
            out=tmp_path / method,
            config=settings,
            quiet=True,
            report=False,
            **more,
        )
    assert "test_adaptation" in made["metacross"].metrics
    assert "test_adaptation" not in made["metacross-few"].metrics
    assert made["metacross-few"].metrics["labelled"] == 5
    whole = transfer("metacross", target, [source], out=tmp_path / "w", config=settings, quiet=True, report=False)
    assert whole.predictions()[1] == made["metacross"].predictions()[1]


@pytest.mark.parametrize("method", ["direct", "direct-few"])
def test_direct_transfer(source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path, method: str) -> None:
    settings["options"] = {}
    run = transfer(method, target, [source], out=tmp_path / "r", config=settings, quiet=True, report=False)
    assert run.tagger().types == ("person", "place")
    assert ("train" in run.metrics["phases"]) == (method == "direct-few")


def test_types_that_the_target_lacks_need_a_rule(
    make_corpus: MakeCorpus, source: Corpus, settings: dict[str, Any], tmp_path: Path
) -> None:
    target = Corpus("fr", make_corpus("clinic").mapped({"drug": "O", "place": "O"}).splits)
    for method in ("direct", "metacross"):
        given = settings if method == "metacross" else {**settings, "options": {}}
        with pytest.raises(SetupError, match="types that the target lacks: place") as error:
            transfer(method, target, [source], out=tmp_path / method, config=given, quiet=True)
        assert "options.labels.place=O" in error.value.fix
        drop = merge(given, {"options": {"labels": {"place": "O"}}})
        run = transfer(method, target, [source], out=tmp_path / f"{method}2", config=drop, quiet=True, report=False)
        assert run.tagger().types == ("person",)
    keep = merge(settings, {"options": {"labels": {"place": "place"}, "adapt": False}})
    run = transfer("metacross", target, [source], out=tmp_path / "k", config=keep, quiet=True, report=False)
    assert run.tagger().types == ("person", "place")
    assert run.tagger().adapter is None


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ({"encoder": {"kind": "recurrent"}}, "recurrent encoder"),
        ({"head": {"kind": "crf"}}, "crf head"),
        ({"options": {"mask_rate": 1.5}}, "1.5"),
        ({"options": {"neighbours": 0}}, "found 0"),
        ({"options": {"weight_decay": 0.1}}, "no weight decay"),
        (
            {"options": {"vectors": "words"}, "encoder": {"transformer": {"freeze_embeddings": False}}},
            "training changes",
        ),
    ],
)
def test_impossible_settings(
    make_method: Make, source: Corpus, settings: dict[str, Any], over: dict[str, Any], found: str
) -> None:
    with pytest.raises(ConfigError, match=found):
        make_method("metacross", [source], settings=merge(settings, over)).check()


def test_presets_hold_what_the_paper_says() -> None:
    paper, released = resolve("metacross"), resolve("metacross", {"preset": "released"})
    assert (paper.options["inner_lr"], paper.pretrain.lr, paper.options["adapt_lr"]) == (3e-5, 3e-5, 1e-5)
    assert (paper.options["neighbours"], paper.options["inner_steps"], paper.pretrain.batch_size) == (2, 2, 32)
    assert (paper.options["mask_rate"], paper.options["max_weight"], paper.pretrain.updates) == (
        0.2,
        2.0,
        3000,
    )
    assert paper.encoder.transformer.freeze_layers == 3
    assert released.encoder.transformer.freeze_layers == 4
    assert released.pretrain.optimizer == "bertadam"
    assert paper.head.scheme == "BIO"
