"""CrossLM and the baselines of its tables: what they train on, what they deploy, what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from nershift.cli import app
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.formats import write_corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import ConfigError, Interrupted, SetupError
from nershift.methods.crosslm.generated import LSTMGenerator
from nershift.methods.crosslm.sampled_softmax import SampledSoftmax, language_model_loss
from nershift.methods.selftrain import most_confident
from nershift.run import resolve, transfer
from nershift.training.logger import TrainLogger
from nershift.training.loop import Loop
from nershift.training.processes import Processes
from nershift.training.seeding import seed_torch

Make = Callable[..., Any]
QUICK = {"train": {"max_steps": 3, "batch_size": 4}, "pretrain": {"max_steps": 3, "batch_size": 4}}
CALM = {"encoder": {"dropout": 0.0, "input_dropout": 0.0}}
RAW = [Sentence.of(["zorp", "flew", "to", "blick"]), Sentence.of(["blick", "1998"]), Sentence.of(["a"])]


def unlabelled(corpus: Corpus) -> list[Sentence]:
    return [s.with_spans(()) for s in corpus.train]


def names(stage: Any) -> list[tuple[str, str]]:
    return [(task.domain, task.kind) for task in stage.tasks]


@pytest.mark.parametrize("variant", ["full", "co-lm", "co-ner", "mix-data", "shared"])
def test_every_variant_runs_with_label_spaces_of_their_own(
    variant: str, heterogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    target = heterogeneous[-1]
    config = merge(merge(tiny, QUICK), {"options": {"variant": variant}})
    run = transfer("crosslm", target, heterogeneous[:1], out=tmp_path / "run", config=config, shots=8, quiet=True)
    predicted = run.predictions()[1]
    assert [s.tokens for s in predicted] == [s.tokens for s in target.test]
    assert set(target.types) <= set(run.tagger().types)
    model = run.tagger().model
    assert type(model.encoder) is RecurrentEncoder  # a plain BiLSTM-CRF
    assert isinstance(model.encoder.recurrent, torch.nn.LSTM)
    assert not model.extras


def test_tasks_follow_the_data(make_method: Make, homogeneous: list[Corpus]) -> None:
    one, two, three, target = homogeneous
    a, b, c = ("source builtin-news", "source builtin-court", "source builtin-travel")

    def tasks(sources: list[Corpus], variant: str = "full", raw: Any = None, labels: bool = True) -> Any:
        goal = target if labels else target.with_splits(train=())
        made = make_method("crosslm", sources, goal, {"options": {"variant": variant}}, raw=raw or {})
        made.check()
        return names(made.train(None))

    four = [(a, "ner"), (a, "lm"), ("target", "ner"), ("target", "lm")]
    assert tasks([one]) == four
    assert tasks([one], "mix-data") == tasks([one], "shared") == four
    assert tasks([one], "co-ner") == [(a, "ner"), ("target", "ner")]
    assert tasks([one], "co-lm") == four[2:]
    assert tasks([]) == four[2:]
    assert tasks([], raw={"source": RAW}) == [*four[2:], ("source", "lm")]
    three_domains = [(d, t) for d in (a, b, c) for t in ("ner", "lm")]
    assert tasks([one, two, three]) == [*three_domains, *four[2:]]
    assert tasks([one], raw={"target": RAW}, labels=False) == [*four[:2], ("target", "lm")]


def test_texts_are_raw_text_where_given_and_the_labelled_sentences_elsewhere(
    make_method: Make, homogeneous: list[Corpus]
) -> None:
    source, target = homogeneous[0], homogeneous[-1]
    stage = make_method("crosslm", [source], target, raw={"source": RAW}).train(None)
    assert list(stage.samplers["source builtin-news LM"].text) == RAW
    assert list(stage.samplers["target LM"].text) == list(target.train)
    assert "zorp" in stage.model.encoder.words.vocabulary.index
    assert stage.model.encoder.words.vocabulary.index["0000"] < stage.model.encoder.words.trained
    mixed = make_method("crosslm", [source], target, {"options": {"variant": "mix-data"}}, raw={"source": RAW})
    samplers = mixed.train(None).samplers
    assert list(samplers["target LM"].text) == list(samplers["source builtin-news LM"].text) == [*RAW, *target.train]
    capped = make_method("crosslm", [source], target, {"options": {"vocabulary": 3}}, raw={"source": RAW})
    assert len(capped.train(None).model.lm.bias) == 3 + 2


def test_the_loss_is_eq_9_and_weights_are_generated_once(
    make_method: Make, homogeneous: list[Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"source_weight": 0.5, "target_weight": 2.0, "lm_weight": 0.25}
    stage = make_method("crosslm", homogeneous[:1], homogeneous[-1], merge(CALM, {"options": options})).train(None)
    model, batches = stage.model, stage.draw(0, 0, 1)
    calls = []
    generate = LSTMGenerator.forward
    monkeypatch.setattr(LSTMGenerator, "forward", lambda self, p: calls.append(len(p)) or generate(self, p))
    negatives = model.lm.draw()
    monkeypatch.setattr(SampledSoftmax, "draw", lambda self: calls.append("draw") or negatives)
    logged = stage.gradients(batches, Tensor.backward)
    assert calls == [4, "draw"]
    learning = {n for n, p in model.named_parameters() if p.grad is not None}
    assert not any(n.startswith("encoder.recurrent") for n in learning)
    assert learning == {n for n, p in model.named_parameters() if p.requires_grad}
    total = torch.zeros(())
    for task in stage.tasks:  # by an ordinary LSTM
        batch = batches[task.sampler]
        stage.model.generator.write(model.encoder.recurrent, task.place)
        states = model.states(batch)
        if task.kind == "ner":
            total = total + (2.0 if task.domain == "target" else 0.5) * model.loss(batch, states)
        else:
            lm = language_model_loss(model.lm, states, batch.inputs["words"], batch.mask)
            total = total + (2.0 if task.domain == "target" else 0.5) * 0.25 * lm
    torch.testing.assert_close(logged["loss"], total.detach(), rtol=1e-5, atol=1e-4)
    assert set(logged) == {"loss", *stage.samplers}


def test_without_labels_nothing_of_the_target_is_seen_but_its_raw_text(
    homogeneous: list[Corpus], make_method: Make, tiny: dict[str, Any], tmp_path: Path
) -> None:
    """No sentence, label or word of dev and test; selection is on the dev split of the source."""
    source = homogeneous[0]
    secret = Sentence.of(["Qyxxy", "Æblegrød"], [(0, 2, "secrettype")])
    target = Corpus("cbs", {"dev": (secret,) * 3, "test": (secret,) * 3})
    method = make_method("crosslm", [source], target, raw={"target": RAW})
    method.check()
    stage = method.train(None)
    assert [(domain, key, gold) for domain, key, gold in stage.selection] == [
        ("source builtin-news", "shared", source.dev)
    ]
    words, letters = stage.model.encoder.words.vocabulary.index, stage.model.encoder.characters.index
    assert not {"Qyxxy", "qyxxy", "Æblegrød", "æblegrød"} & set(words)
    assert not {"Æ", "ø", "Q"} & set(letters)
    seen = {
        t for sampler in stage.samplers.values() for k in range(9) for s in sampler.batch(k).sentences for t in s.tokens
    }
    assert not seen & set(secret.tokens)
    assert seen >= {"zorp", "blick"}
    assert all("secrettype" not in d.space.types for _, d in stage.model.named_heads())
    config = merge(tiny, QUICK)
    only_test = Corpus("cbs", {"test": target.test})
    runs = [
        transfer(
            "crosslm",
            goal,
            [source],
            out=tmp_path / name,
            raw={"target": RAW},
            config=config,
            shots=n,
            quiet=True,
        )
        for name, goal, n in (("dev", target, 0), ("test", only_test, 0), ("unsaid", only_test, None))
    ]
    weights = [run.tagger().model.state_dict() for run in runs]
    assert all(torch.equal(weights[0][name], other[name]) for other in weights for name in other)
    assert runs[0].metrics["phases"]["train"]["dev_f1"] is not None
    assert set(runs[0].tagger().types) == {"person", "place"}


def test_the_deployed_tagger_has_the_weights_of_target_and_ner(make_method: Make, homogeneous: list[Corpus]) -> None:
    source, target = homogeneous[0], homogeneous[-1].with_splits(train=())
    method = make_method("crosslm", [source], target, raw={"target": RAW})
    stage = method.train(None)
    stage.model.eval()
    place = {"domain": "target", "task": "ner"}
    batch = stage.model.batch("shared", target.test, [stage.model.encoder.prepare(s.tokens) for s in target.test])
    x = stage.model.encoder.embed(*(batch.inputs[k] for k in ("rows", "chars", "where")))
    states = stage.model.generator.run(x, batch.inputs["lengths"], stage.model.generator([place])[0])
    expected = stage.model.head("shared").decode(states, batch.mask)
    model = method.finish(stage.model)
    assert [key for key, _ in model.named_heads()] == ["target"]
    tagged = model.predict("target", target.test)
    assert [list(s.spans) for s in tagged] == [model.head("target").space.decode(ids) for ids in expected]


def test_an_interrupted_run_ends_with_the_same_weights(
    make_method: Make, homogeneous: list[Corpus], tmp_path: Path
) -> None:
    path = tmp_path / "text.raw"
    path.write_text("".join(" ".join(s.tokens) + "\n" for s in homogeneous[1].train))
    settings = {"train": {"max_steps": 7, "batch_size": 4}}

    def run(folder: Path, stop_at: int = 0) -> dict[str, Tensor]:
        raw = {"target": RawText(path)}
        stage = make_method("crosslm", homogeneous[:1], homogeneous[-1], settings, raw=raw).train(None)
        with Processes("cpu") as processes, TrainLogger(folder, quiet=True) as logger:
            if stop_at:
                phase_draw = stage.draw
                stage.draw = lambda step, *rest: setattr(processes, "_stop", step == stop_at) or phase_draw(step, *rest)
            Loop(stage, folder, processes, logger).run()
        return {n: p.detach().clone() for n, p in stage.model.named_parameters() if p.requires_grad}

    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = run(tmp_path / "whole")
    with pytest.raises(Interrupted):
        run(tmp_path / "parts", stop_at=4)
    resumed = run(tmp_path / "parts")
    assert {name for name, value in whole.items() if not torch.equal(value, resumed[name])} == set()


def test_it_learns_both_tasks(make_method: Make, homogeneous: list[Corpus]) -> None:
    stage = make_method("crosslm", homogeneous[:1], homogeneous[-1], CALM).train(None)
    optimizer = torch.optim.Adam([p for p in stage.model.parameters() if p.requires_grad], lr=0.02)
    losses = []
    for step in range(25):
        seed_torch(step)
        optimizer.zero_grad()
        losses.append(stage.gradients(stage.draw(step % 3, 0, 1), Tensor.backward))
        optimizer.step()
    for name in stage.samplers:
        share = 0.6 if name.endswith("NER") else 0.9
        assert sum(x[name] for x in losses[-3:]) < share * sum(x[name] for x in losses[:3]), name
    assert stage.validate() is not None


def test_the_preset_is_that_of_the_paper() -> None:
    config = resolve("crosslm", {"preset": "paper"})
    assert (config.options["embedding_size"], config.train.batch_size) == (8, 30)
    assert (config.train.optimizer, config.train.lr) == ("sgd", 0.015)
    assert (config.encoder.recurrent.cell, config.encoder.recurrent.size) == ("lstm", 100)
    alone = resolve("target_only", {"preset": "crosslm"})
    assert (alone.train.optimizer, alone.train.lr, alone.train.batch_size) == ("rmsprop", 1e-3, 30)
    assert alone.encoder == config.encoder == resolve("multitask", {"preset": "crosslm"}).encoder
    assert resolve("crosslm", {"preset": "released-code"}).options["domain_spread"] == 1.0


def test_impossible_set_ups_are_refused(
    make_method: Make, homogeneous: list[Corpus], heterogeneous: list[Corpus]
) -> None:
    source, target = homogeneous[0], homogeneous[-1]
    bare = target.with_splits(train=())

    def check(*args: Any, **more: Any) -> None:
        make_method("crosslm", *args, **more).check()

    with pytest.raises(ConfigError, match="1-layer gru"):
        check([source], target, {"encoder": {"recurrent": {"cell": "gru"}}})
    with pytest.raises(ConfigError, match="2-layer lstm"):
        check([source], target, {"encoder": {"recurrent": {"layers": 2}}})
    with pytest.raises(ConfigError, match=r"found 1\.5"):
        check([source], target, {"options": {"domain_spread": 1.5}})
    with pytest.raises(ConfigError, match="recurrent"):
        make_method("bilm", [source], target, {"encoder": {"kind": "transformer"}}).check()
    with pytest.raises(SetupError, match=r"'targt'.*did you mean 'target'"):
        check([source], target, raw={"targt": RAW})
    with pytest.raises(SetupError, match="'source', which is not a domain"):
        check(homogeneous[:2], target, raw={"source": RAW})
    with pytest.raises(SetupError, match="raw text alone"):
        check([source], bare)
    with pytest.raises(SetupError, match="there are no sources"):
        check([], bare, raw={"target": RAW})
    with pytest.raises(SetupError, match="the sources differ in types"):
        check(heterogeneous[:2], bare, raw={"target": RAW})
    with pytest.raises(SetupError, match="'co-lm' was given no labelled"):
        check([source], bare, {"options": {"variant": "co-lm"}}, raw={"target": RAW})


@pytest.mark.parametrize("name", ["selftrain", "bilm", "dann"])
def test_baselines_run_without_target_labels(
    name: str, homogeneous: list[Corpus], tiny: dict[str, Any], tmp_path: Path
) -> None:
    *sources, target = homogeneous
    config = merge(tiny, {"train": {"max_steps": 3}, "pretrain": {"max_steps": 90, "epochs": 20, "optimizer": "adam"}})
    config = merge(config, {"options": {"lm_size": 6}} if name == "bilm" else {})
    raw = {"target": [*unlabelled(target), *RAW]}
    only_test = Corpus("cbs", {"test": target.test})
    run = transfer(name, only_test, sources[:2], out=tmp_path / "run", raw=raw, config=config, quiet=True)
    assert [s.tokens for s in run.predictions()[1]] == [s.tokens for s in target.test]
    assert set(run.tagger().types) == {"person", "place"}


def test_bilm_learns_the_texts_it_is_told_to(make_method: Make, homogeneous: list[Corpus]) -> None:
    source, target = homogeneous[0], homogeneous[-1]
    sizes = {"source": len(source.train), "target": 3, "both": len(source.train) + 3}
    for texts, size in sizes.items():
        settings = {"options": {"texts": texts, "lm_size": 6}}
        method = make_method("bilm", [source], target, settings, raw={"target": RAW})
        method.check()
        stage = method.pretrain()
        assert len(stage.samplers["text"].text) == size
    start = stage.model
    stage.gradients(stage.draw(0, 0, 1), Tensor.backward)
    assert all(p.grad is not None for p in start.parameters() if p.requires_grad)
    after = method.train(start)
    assert after.model.encoder.lm is start.encoder
    assert [key for key, _ in after.dev] == ["target"]
    assert list(after.samplers) == ["target"]


def test_self_training_learns_from_the_surest_sentences(make_method: Make, homogeneous: list[Corpus]) -> None:
    tagged = [
        Sentence.of(["a", "b"], []),
        *(Sentence.of([w]).with_spans([_span(p)]) for w, p in (("c", 0.4), ("d", 0.9), ("e", 0.7), ("f", 0.2))),
    ]
    assert [s.tokens for s in most_confident(tagged, 0.5)] == [("d",), ("e",)]
    assert [s.tokens for s in most_confident(tagged, 0.01)] == [("d",)]
    assert most_confident(tagged[:1], 0.5) == []
    *sources, target = homogeneous
    with pytest.raises(ConfigError, match="keep"):
        make_method("selftrain", sources, target, {"options": {"keep": 0.0}}).check()
    with pytest.raises(SetupError, match="no raw text"):
        make_method("selftrain", sources, target.with_splits(train=())).check()


def _span(score: float) -> Any:
    from nershift.data.spans import Span

    return Span(0, 1, "person", score)


def test_on_the_command_line_raw_text_streams_and_bad_lines_are_shown(
    homogeneous: list[Corpus], tmp_path: Path
) -> None:
    source, target = homogeneous[0], homogeneous[-1]
    write_corpus(tmp_path / "news", source)
    write_corpus(tmp_path / "clinic", target)
    text = tmp_path / "notes.raw"
    text.write_bytes(b"".join(" ".join(s.tokens).encode() + b"\n" for s in target.train) + b"caf\xe9\n")
    settings = ["train.max_steps=2", "train.batch_size=4", "encoder.recurrent.size=6", "device=cpu"]
    arguments = ["transfer", "--method", "crosslm", "--source", str(tmp_path / "news"), "--shots", "0"]
    arguments += ["--target", str(tmp_path / "clinic"), "--raw", f"target={text}", "--raw", f"source={text}"]
    arguments += ["--out", str(tmp_path / "run"), "--quiet", *(a for s in settings for a in ("--set", s))]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    shown = " ".join((done.output + done.stderr).split())
    assert "1 bad lines left out (encoding 1)" in shown
    assert "notes.raw:41" in shown.replace(" ", "")
    assert "bad lines left out" in (tmp_path / "run" / "metrics.json").read_text()
