"""MetaCross and direct transfer: tasks, masks, the loop against the batch, runs from corpora to a tagger."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from nershift import Tagger
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.deploy.adaptive import Case, cases, share_changed
from nershift.errors import CheckpointError, ConfigError, SetupError
from nershift.run import Run, pretrain, resolve, transfer
from nershift.train.phase import Phase
from nershift.train.pseudo_tasks import PseudoTaskPhase
from nershift.train.seeding import seed_torch
from tiny_encoders import make_encoder_folder

pytest.importorskip("transformers")
Make = Callable[..., Any]
MakeCorpus = Callable[..., Corpus]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_encoder_folder("bert", tmp_path_factory.mktemp("bert"))


def small(encoder: Path) -> dict[str, Any]:
    transformer = {"name": str(encoder), "freeze_layers": 1, "max_pieces": 24, "overlap": 8}
    return {
        "device": "cpu",
        "encoder": {
            "kind": "transformer",
            "transformer": transformer,
            "chars": {"use": False},
            "dropout": 0.0,
        },
        "pretrain": {"batch_size": 6, "max_steps": 4, "epochs": 2, "lr": 0.01},
        "train": {"batch_size": 8, "epochs": 1, "lr": 0.01},
        "options": {"inner_rate": 0.01, "adapt_rate": 0.01},
    }


@pytest.fixture
def settings(encoder: Path) -> dict[str, Any]:
    return small(encoder)


def make_source(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("news", train=30, dev=8, test=0)


def make_target(make_corpus: MakeCorpus) -> Corpus:
    return Corpus("ward", make_corpus("clinic", train=10, dev=6, test=8).mapped({"drug": "O"}).splits)


@pytest.fixture
def source(make_corpus: MakeCorpus) -> Corpus:
    return make_source(make_corpus)


@pytest.fixture
def target(make_corpus: MakeCorpus) -> Corpus:
    return make_target(make_corpus)


def gradients(phase: Phase, step: int = 0) -> dict[str, Tensor]:
    phase.model.train()
    for module in phase.model.modules():  # dropout draws other masks for a batch than for its sentences
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    phase.model.zero_grad()
    seed_torch(1, step)
    phase.gradients(phase.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in phase.model.named_parameters() if p.grad is not None}


def phase_of(make_method: Make, source: Corpus, settings: dict[str, Any], **options: Any) -> PseudoTaskPhase:
    made = make_method("metacross", [source], settings=merge(settings, {"options": options})).pretrain()
    assert isinstance(made, PseudoTaskPhase)
    return made


def test_every_sentence_is_a_task_of_its_nearest_others(
    make_method: Make, source: Corpus, settings: dict[str, Any]
) -> None:
    phase = phase_of(make_method, source, settings, neighbours=3)
    feed = phase.feed
    texts = [s.tokens for s in feed.support.sentences]
    assert len(set(texts)) == len(texts) < len(source.train)  # the corpus repeats itself, the index does not
    for i, sentence in enumerate(feed.sentences):
        found = feed.neighbours(i)
        assert len(set(found)) == 3
        assert sentence.tokens not in [texts[j] for j in found]
    batches = phase.draw(0, 0, 1)
    assert sum(len(b) for name, b in batches.items() if name.startswith("query")) == 6
    assert sum(len(b) for name, b in batches.items() if name.startswith("support")) == 18


@pytest.mark.parametrize("rule", ["adam", "sgd", "released"])
@pytest.mark.parametrize("memory", [4.0, 1e-3])
def test_tasks_at_once_equal_tasks_one_by_one(
    make_method: Make, source: Corpus, settings: dict[str, Any], rule: str, memory: float
) -> None:
    clip = 0.5 if rule != "adam" else 0.0
    options = {"rule": rule, "clip": clip, "memory": memory}
    found = {}
    for batched in ("always", "never"):
        phase = phase_of(make_method, source, settings, batched=batched, **options)
        assert phase.batched == (batched == "always")
        phase.model.double()
        found[batched] = gradients(phase)
    assert set(found["always"]) == set(found["never"])
    for name, expected in found["never"].items():
        assert (found["always"][name] - expected).norm() <= 1e-6 * expected.norm() + 1e-10, name


def test_without_inner_steps_it_is_the_sum_of_query_gradients(
    make_method: Make, source: Corpus, settings: dict[str, Any]
) -> None:
    """Eqs. 10 and 12 at θ' = θ, loss by hand: mean of the tokens' cross-entropies and twice the largest."""
    for batched in ("always", "never"):
        phase = phase_of(make_method, source, settings, steps=0, mask_rate=0.0, batched=batched)
        found = gradients(phase)
        model = phase.model
        total = torch.zeros(())
        for i in phase.feed.indices(0):
            sentence = phase.feed.sentences[i]
            batch = model.batch("shared", [sentence], [model.encoder.prepare(sentence.tokens)])
            logits = model.decoder("shared").project(model.states(batch))[0]
            tags = torch.tensor(model.encode_tags("shared", sentence))
            losses = torch.nn.functional.cross_entropy(logits, tags, reduction="none")
            total = total + losses.mean() + 2.0 * losses.max()
        model.zero_grad()
        total.backward()
        for name, value in found.items():
            torch.testing.assert_close(value, model.get_parameter(name).grad, rtol=1e-4, atol=1e-5)


def test_entities_are_masked_anew_each_epoch(
    make_method: Make, source: Corpus, settings: dict[str, Any]
) -> None:
    phase = phase_of(make_method, source, settings, mask_rate=0.5)
    feed, hidden = phase.feed, phase.model.encoder.tokenizer.mask_token_id
    counts = {}
    for epoch in range(2):
        masked = 0
        for i, sentence in enumerate(feed.sentences):
            pieces = phase.feed.masked(epoch, "query", i)
            assert pieces == phase.feed.masked(epoch, "query", i)
            inside = {at for span in sentence.spans for at in range(span.start, span.end)}
            gone = {at for at, (w, p) in enumerate(pieces.at) if pieces.ids[w][p] == hidden}
            assert gone <= inside
            masked += len(gone)
            counts.setdefault(epoch, []).append(gone)
        assert 0.3 < masked / sum(len(x) for s in feed.sentences for x in [_inside(s)]) < 0.7
    assert counts[0] != counts[1]


def _inside(sentence: Sentence) -> list[int]:
    return [at for span in sentence.spans for at in range(span.start, span.end)]


def test_what_is_masked(make_method: Make, source: Corpus, settings: dict[str, Any]) -> None:
    word, first = (
        phase_of(make_method, source, settings, mask_rate=1.0, mask=mask, mask_support=mask == "word")
        for mask in ("word", "first")
    )
    hidden = word.model.encoder.tokenizer.mask_token_id
    several = 0
    for i, sentence in enumerate(word.feed.sentences):
        plain = word.model.encoder.prepare(sentence.tokens)
        a, b = word.feed.masked(0, "query", i), first.feed.masked(0, "query", i)
        assert a.at == b.at == plain.at  # masks change no position
        several += sum(row.count(hidden) for row in a.ids) - sum(row.count(hidden) for row in b.ids)
    assert several > 0
    support = word.feed.support.sentences[0]
    assert first.feed.masked(0, "support", 0).ids == first.model.encoder.prepare(support.tokens).ids
    assert hidden in word.feed.masked(0, "support", 0).ids[0]


def test_masks_hide_tokens_in_every_window_that_shows_them(
    make_method: Make, source: Corpus, settings: Any
) -> None:
    encoder = phase_of(make_method, source, settings).model.encoder
    tokens = ["Ada", "flew", "from", "Leeds", "to", "Porto", "."] * 5
    pieces = encoder.prepare(tokens, {i for i, t in enumerate(tokens) if t == "Leeds"})
    leeds = encoder.tokenizer("Leeds", add_special_tokens=False)["input_ids"][0]
    assert len(pieces.ids) > 1
    assert leeds not in {i for row in pieces.ids for i in row}


def test_the_inner_rate_can_follow_the_schedule(make_method: Make, source: Corpus, settings: Any) -> None:
    over = {"pretrain": {"schedule": "linear", "warmup": 0.5, "max_steps": 8, "epochs": 9}}
    phase = phase_of(make_method, source, merge(settings, over), inner_schedule=True)
    rates = [phase._rule(phase.draw(step, 0, 1)["query 0"]).rate for step in range(8)]
    assert max(rates) <= 0.01
    assert rates[0] < rates[2] > rates[7] > 0
    still = phase_of(make_method, source, settings)
    assert still._rule(still.draw(3, 0, 1)["query 0"]).rate == 0.01


def test_processes_share_out_the_tasks(make_method: Make, source: Corpus, settings: Any) -> None:
    """Their gradients, averaged by numbers of sentences, are those of one process."""
    whole = gradients(phase_of(make_method, source, settings))
    phase = phase_of(make_method, source, settings)
    total = {n: torch.zeros_like(g) for n, g in whole.items()}
    for module in phase.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for rank in range(2):
        phase.model.zero_grad()
        phase.gradients(phase.draw(0, rank, 2), Tensor.backward)
        for n in total:
            total[n] += phase.model.get_parameter(n).grad / 2
    for n, g in whole.items():
        torch.testing.assert_close(total[n], g, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("preset", ["paper", "released", "sgd"])
def test_a_run_adapts_to_every_test_sentence(
    source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path, preset: str
) -> None:
    settings["options"] = {"adapt_rate": 0.05}
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
    assert tagger.support is not None
    assert tagger.support.settings.rule.kind == {"paper": "adam"}.get(preset, preset)


@pytest.fixture(scope="module")
def trained(encoder: Path, make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = merge(
        small(encoder), {"pretrain": {"max_steps": 30, "epochs": 30}, "options": {"adapt_rate": 0.03}}
    )
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


def test_a_tagger_without_support_says_so(
    make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    run = transfer(
        "in_domain", make_corpus("news"), out=tmp_path / "r", config=tiny, quiet=True, report=False
    )
    with pytest.raises(CheckpointError, match="no labelled sentences"):
        run.tagger().adaptive("Ada flew .")


def test_cases_are_what_adaptation_changed(run: Run) -> None:
    tagger = run.tagger()
    gold, after = run.predictions()
    before = tagger.tag_sentences(gold)
    assert tagger.support is not None
    found = cases(tagger.model, tagger.key, tagger.support, gold)
    assert [(c.before.spans, c.after.spans) for c in found] == [
        (a.spans, b.spans) for a, b in zip(before, after, strict=True) if a.spans != b.spans
    ]
    assert all(len(c.neighbours) == 2 for c in found)
    assert (share_changed(before, after) > 0) == bool(found)
    right, wrong = (Sentence.of(["Ada", "left"], spans) for spans in ([(0, 1, "person")], []))
    assert Case(right, wrong, right, ()).outcome == "put right"
    assert Case(right, right, wrong, ()).outcome == "put wrong"
    assert share_changed([right], [wrong]) == 0.5


def test_the_rate_is_chosen_on_the_dev_splits_of_the_sources(
    source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path
) -> None:
    settings["options"] |= {"rule": "sgd", "adapt_rates": [1000.0, 1e-6]}  # the first ruins the model
    settings["pretrain"] |= {"max_steps": 30, "epochs": 30}
    done = transfer(
        "metacross", target, [source], out=tmp_path / "r", config=settings, quiet=True, report=False
    )
    support = done.tagger().support
    assert support is not None
    assert support.settings.rule.rate == 1e-6
    blind = Corpus("blind", {"train": source.train})
    with pytest.raises(SetupError, match="no dev split"):
        transfer("metacross", target, [blind], out=tmp_path / "b", config=settings, quiet=True, report=False)


def test_a_broken_support(run: Run) -> None:
    path = run.folder / "support.json"
    body = json.loads(path.read_text())
    path.write_text(json.dumps({**body, "sentences": body["sentences"][1:]}))
    with pytest.raises(CheckpointError, match="vectors for"):
        run.tagger()
    path.write_text("{}")
    with pytest.raises(CheckpointError, match="missing or wrong"):
        run.tagger()


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
    whole = transfer(
        "metacross", target, [source], out=tmp_path / "w", config=settings, quiet=True, report=False
    )
    assert whole.predictions()[1] == made["metacross"].predictions()[1]


@pytest.mark.parametrize("method", ["direct", "direct-few"])
def test_direct_transfer(
    source: Corpus, target: Corpus, settings: dict[str, Any], tmp_path: Path, method: str
) -> None:
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
        run = transfer(
            method, target, [source], out=tmp_path / f"{method}2", config=drop, quiet=True, report=False
        )
        assert run.tagger().types == ("person",)
    keep = merge(settings, {"options": {"labels": {"place": "place"}, "adapt": False}})
    run = transfer("metacross", target, [source], out=tmp_path / "k", config=keep, quiet=True, report=False)
    assert run.tagger().types == ("person", "place")
    assert run.tagger().support is None


@pytest.mark.parametrize(
    ("over", "found"),
    [
        ({"encoder": {"kind": "recurrent"}}, "recurrent encoder"),
        ({"decoder": {"kind": "crf"}}, "crf decoder"),
        ({"options": {"mask_rate": 1.5}}, "1.5"),
        ({"options": {"neighbours": 0}}, "found 0"),
        ({"options": {"decay": 0.1}}, "no decay"),
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


def test_too_few_sentences_for_a_task(
    make_method: Make, make_corpus: MakeCorpus, settings: dict[str, Any]
) -> None:
    phase = phase_of(make_method, make_corpus("news", train=2), settings, neighbours=2)
    with pytest.raises(SetupError, match="2 neighbours were asked"):
        phase.draw(0, 0, 1)


def test_presets_hold_what_the_paper_says() -> None:
    paper, released = resolve("metacross"), resolve("metacross", {"preset": "released"})
    assert (paper.options["inner_rate"], paper.pretrain.lr, paper.options["adapt_rate"]) == (3e-5, 3e-5, 1e-5)
    assert (paper.options["neighbours"], paper.options["steps"], paper.pretrain.batch_size) == (2, 2, 32)
    assert (paper.options["mask_rate"], paper.options["max_weight"], paper.pretrain.max_steps) == (
        0.2,
        2.0,
        3000,
    )
    assert paper.encoder.transformer.freeze_layers == 3
    assert released.encoder.transformer.freeze_layers == 4
    assert released.pretrain.optimizer == "bertadam"
    assert paper.decoder.scheme == "BIO"
