"""DATNet on a tiny model: what a step is made of, switches, sampling, the choice of a variant, resuming."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import run_loop
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.encoders.recurrent import RecurrentEncoder
from nershift.errors import ConfigError, Interrupted, SetupError
from nershift.methods.datnet.grad_loss import grad_loss
from nershift.methods.datnet.paired_batch import PairedBatch
from nershift.methods.datnet.perturbation import Perturbation
from nershift.methods.datnet.shared_private import SharedPrivateEncoder, shared_part
from nershift.methods.datnet.stage import DATNetStage
from nershift.run import transfer
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

Make = Callable[..., Any]
STILL = {"encoder": {"dropout": 0.0, "input_dropout": 0.0}}


@pytest.fixture
def corpora(heterogeneous: list[Corpus]) -> tuple[Corpus, Corpus]:
    return heterogeneous[0], heterogeneous[-1]  # news and clinic, types of their own


@pytest.fixture
def phase_of(make_method: Make, corpora: tuple[Corpus, Corpus]) -> Make:
    def make(settings: Any = None, **options: Any) -> DATNetStage:
        values = merge({"options": {"private_size": 6, "sampling_exponent": 0.0, **options}}, settings or {})
        sources = [] if options.get("variant") == "base" else [corpora[0]]
        stage = make_method("datnet", sources, corpora[1], values).train(None)
        assert isinstance(stage, DATNetStage)
        stage.model.train()
        return stage

    return make


def gradients(stage: TrainingStage, step: int = 0) -> dict[str, Tensor]:
    stage.model.zero_grad()
    seed_torch(1, step)
    stage.gradients(stage.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}


def losses(stage: DATNetStage, step: int = 0) -> tuple[Tensor, Tensor]:
    """Tagging and adversary losses of a step without reversal, put together by hand."""
    tagging, adversary, options = [], [], stage.options
    for name, batch in stage.draw(step, 0, 1).items():
        model = stage.resource(name)
        states = model.states(batch)
        tagging.append(model.loss(batch, states))
        logits = stage.model.discriminator(shared_part(model.encoder, states), batch.mask)
        adversary.append(grad_loss(logits, name != "target", options.alpha, options.gamma).mean())
    return torch.stack(tagging).sum(), torch.stack(adversary).sum()


@pytest.mark.parametrize("variant", ["F", "P"])
def test_a_step_descends_tagging_and_discriminator_and_reverses_the_latter_for_the_encoder(
    phase_of: Make, variant: str
) -> None:
    stage = phase_of(STILL, variant=variant, adversarial_training=False, adversary_weight=0.7)
    stage.model.double()
    found = gradients(stage)
    named = {n: p for n, p in stage.model.named_parameters() if p.requires_grad}
    tagging, adversary = (
        torch.autograd.grad(x, list(named.values()), allow_unused=True, retain_graph=True) for x in losses(stage)
    )
    for (name, p), t, a in zip(named.items(), tagging, adversary, strict=True):
        sign = 1.0 if "discriminator" in name else -0.7
        expected = torch.zeros_like(p) + (0 if t is None else t) + (0 if a is None else sign * a)
        torch.testing.assert_close(found.get(name, torch.zeros_like(p)), expected)


def test_the_adversary_reaches_the_shared_layer_but_no_private_one(phase_of: Make) -> None:
    stage = phase_of(STILL, variant="P")
    named = {n: p for n, p in stage.model.named_parameters() if p.requires_grad}
    _, adversary = losses(stage)
    moved = dict(zip(named, torch.autograd.grad(adversary, list(named.values()), allow_unused=True), strict=True))
    assert moved["encoder.recurrent.weight_ih_l0"].norm() > 0
    assert moved["encoder.chars.embedding.weight"].norm() > 0
    for name, g in moved.items():
        if "private" in name or "heads" in name:
            assert g is None or not g.any()


def test_two_values_of_alpha_give_two_gradients_in_the_shared_layer(phase_of: Make) -> None:
    settings = {"adversarial_training": False}
    found = [gradients(phase_of(STILL, alpha=a, **settings)) for a in (0.1, 0.8)]
    name = "encoder.recurrent.weight_hh_l0"
    assert (found[0][name] - found[1][name]).norm() > 1e-5 * found[0][name].norm()
    plain = gradients(phase_of(STILL, adversary="none", **settings))
    assert not torch.allclose(plain[name], found[0][name], rtol=1e-4, atol=0)


def test_adversarial_training_adds_the_loss_of_perturbed_inputs(phase_of: Make) -> None:
    """Eq. 4; with ε = 0 the perturbed inputs are the inputs, so every gradient is doubled."""
    nothing = {"epsilon_source": 0.0, "epsilon_target": 0.0, "epsilon_chars": 0.0}
    plain = gradients(phase_of(STILL, adversarial_training=False))
    doubled = gradients(phase_of(STILL, **nothing))
    for name, value in plain.items():
        torch.testing.assert_close(doubled[name], 2 * value, rtol=1e-4, atol=1e-6)
    for key in nothing:
        other = gradients(phase_of(STILL, **(nothing | {key: 1.0})))
        assert any(not torch.allclose(doubled[n], other[n], rtol=1e-3, atol=1e-6) for n in doubled), key


def test_each_resource_has_an_epsilon_of_its_own(phase_of: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = phase_of(STILL, epsilon_source=1.0, epsilon_target=3.0, epsilon_chars=0.5)
    batches = stage.draw(0, 0, 1)
    seen: list[Perturbation] = []

    class Watched(PairedBatch):
        def perturbation(self, *args: Any) -> Perturbation:
            seen.append(super().perturbation(*args))
            return seen[-1]

    monkeypatch.setattr("nershift.methods.datnet.stage.PairedBatch", Watched)
    stage.gradients(batches, Tensor.backward)
    (eta,) = seen
    pair = PairedBatch([(stage.resource(name).encoder, batch.inputs) for name, batch in batches.items()])
    for name, side in zip(batches, pair.sides, strict=True):
        assert eta.chars is not None
        words, chars = eta.words[side.at], eta.chars[side.at]
        size = 3.0 if name == "target" else 1.0
        torch.testing.assert_close(words.flatten(1).norm(dim=1), torch.full((len(batches[name]),), size))
        torch.testing.assert_close(chars.flatten(1).norm(dim=1), torch.full((len(batches[name]),), 0.5))


def test_perturbed_inputs_are_harder(phase_of: Make) -> None:
    stage = phase_of(STILL, adversary="none", epsilon_source=0.5, epsilon_target=0.5, epsilon_chars=0.5)
    seed_torch(1)
    logged = stage.gradients(stage.draw(0, 0, 1), Tensor.backward)
    assert logged["perturbed_loss"] > logged["loss"]


ROWS: list[dict[str, Any]] = [
    {"variant": v, "adversarial_training": at, **({} if v == "base" else {"adversary": a})}
    for v in ("base", "F", "P")
    for at in (False, True)
    for a in (("none",) if v == "base" else ("none", "ad", "grad"))
]


@pytest.mark.parametrize("options", ROWS, ids=str)
def test_every_row_of_table_4_is_a_config(phase_of: Make, options: dict[str, Any]) -> None:
    found = gradients(phase_of(**options))
    assert any("discriminator" in n for n in found) == (options.get("adversary", "none") != "none")
    assert any(".private." in n for n in found) == (options["variant"] == "P")
    assert any(n.startswith("source.heads") for n in found) == (options["variant"] != "base")
    assert not any(n.endswith("words.weight") for n in found)  # §3.2: fixed during training


def test_words_are_one_table_in_one_language_and_two_in_two(make_method: Make, corpora: tuple[Corpus, Corpus]) -> None:
    source, target = corpora
    for language, choice, same in (("en", "auto", True), ("nl", "auto", False), ("nl", "shared", True)):
        options = {"options": {"word_tables": choice}}
        theirs = replace(source, language="en")
        model = make_method("datnet", [theirs], replace(target, language=language), options).train(None).model
        other = model.source.encoder
        assert (model.encoder.words is other.words) == same
        assert model.encoder.chars is other.chars
        word = next(t for s in target.train for t in s.tokens if t.isalpha())
        assert model.encoder.words.vocabulary.find(word) > 1
        assert model.encoder.characters is other.characters


def test_the_source_can_have_vectors_of_its_own(
    make_method: Make, corpora: tuple[Corpus, Corpus], tmp_path: Path
) -> None:
    path = tmp_path / "v.txt"
    path.write_text("the " + " ".join(["0.5"] * 12) + "\nof " + " ".join(["0.25"] * 12) + "\n")
    settings = {"options": {"source_words": {"vectors": str(path)}}}
    model = make_method("datnet", [corpora[0]], corpora[1], settings).train(None).model
    table = model.source.encoder.words
    assert table.vocabulary.find("neverseen") == 1
    assert torch.equal(table(torch.tensor([table.vocabulary.find("the")]))[0], torch.full((12,), 0.5))
    path.write_text("the 1 2 3\n")
    with pytest.raises(ConfigError, match="12 dimensions for the target and 3"):
        make_method("datnet", [corpora[0]], corpora[1], settings).train(None)


@pytest.mark.parametrize(("exponent", "expected"), [(0.0, 20), (0.5, 10), (1.0, 5)])
def test_a_small_target_is_seen_as_often_as_the_exponent_says(
    make_method: Make, corpora: tuple[Corpus, Corpus], exponent: float, expected: int
) -> None:
    """Five batches of the target among twenty of the source."""
    source, target = corpora[0].with_splits(train=corpora[0].train * 4), corpora[1]
    settings = {"options": {"sampling_exponent": exponent, "source_share": 1.0}, "train": {"batch_size": 8}}
    stage = make_method("datnet", [source], target, settings).train(None)
    steps = [list(stage.draw(i, 0, 1)) for i in range(20)]
    assert stage.steps_per_epoch == 20
    assert all(names[0] in stage.sources for names in steps)
    turns = [i for i, names in enumerate(steps) if "target" in names]
    assert len(turns) == stage.target_steps == expected
    assert len({b - a for a, b in pairwise(turns)}) == 1  # evenly spread


@pytest.mark.parametrize("variant", ["base", "F"])
def test_an_epoch_may_have_so_many_steps_and_a_small_target_goes_round(phase_of: Make, variant: str) -> None:
    stage = phase_of({"train": {"batch_size": 16}}, variant=variant, epoch_steps=7, sampling_exponent=0.0)
    assert stage.steps_per_epoch == stage.target_steps == 7
    assert stage.samplers["target"].per_epoch == 3
    drawn = [stage.draw(i, 0, 1)["target"].sentences for i in range(9)]
    for i in range(0, 9, 3):  # three passes
        assert {s.tokens for part in drawn[i : i + 3] for s in part} == {
            s.tokens for s in stage.samplers["target"].sentences
        }


def test_sources_pass_once_a_round_and_the_target_goes_round(phase_of: Make) -> None:
    stage = phase_of({"train": {"batch_size": 8}})
    for name, sampler in stage.samplers.items():
        drawn = Counter(s.tokens for i in range(sampler.per_epoch) for s in stage.draw(i, 0, 1)[name].sentences)
        assert drawn == Counter(s.tokens for s in sampler.sentences)


def test_several_sources_have_a_decoder_each_unless_their_types_agree(
    make_method: Make, heterogeneous: list[Corpus], homogeneous: list[Corpus]
) -> None:
    for corpora, heads in ((heterogeneous, 3), (homogeneous, 1)):
        *sources, target = corpora
        stage = make_method("datnet", sources, target).train(None)
        assert len(stage.model.source.named_heads()) == heads
        drawn = {name for i in range(stage.steps_per_epoch * 3) for name in stage.draw(i, 0, 1)}
        assert len(drawn) == 4
        assert gradients(stage)


def test_one_decoder_serves_both_if_the_types_agree(make_method: Make, homogeneous: list[Corpus]) -> None:
    settings = {"options": {"heads": "shared"}}
    model = make_method("datnet", homogeneous[:1], homogeneous[-1], settings).train(None).model
    assert model.source.head("shared") is model.head("target")


def test_the_rule_that_picks_a_variant(make_method: Make, corpora: tuple[Corpus, Corpus]) -> None:
    source, target = replace(corpora[0], language="English"), corpora[1]
    many = target.with_splits(train=target.train * 3)
    for corpus, language, variant, reason in (
        (many, "english", "F", "one language"),
        (many, "", "F", "one language"),
        (target, "Spanish", "F", "40 target sentences (100 or fewer)"),
        (many, "Spanish", "P", "120 target sentences (over 100)"),
    ):
        method = make_method("auto-datnet", [source], replace(corpus, language=language))
        method.check()
        assert method.choice()[0] == variant
        assert reason in method.choices()[0]
        kind = SharedPrivateEncoder if variant == "P" else RecurrentEncoder
        assert type(method.train(None).model.encoder) is kind


BAD: list[tuple[dict[str, Any], str]] = [
    ({"options": {"alpha": 1.5}}, "config.options.alpha"),
    ({"options": {"gamma": -1.0}}, "config.options.gamma"),
    ({"options": {"source_share": 0.0}}, "config.options.source_share"),
    ({"options": {"private_size": 0}}, "config.options.private_size"),
    ({"encoder": {"kind": "transformer"}}, "encoder.kind"),
    ({"options": {"variant": "base"}}, "--source"),
]


@pytest.mark.parametrize(("settings", "place"), BAD, ids=str)
def test_impossible_settings_are_refused_before_the_first_batch(
    make_method: Make, corpora: tuple[Corpus, Corpus], settings: dict[str, Any], place: str
) -> None:
    with pytest.raises((ConfigError, SetupError)) as caught:
        make_method("datnet", [corpora[0]], corpora[1], settings).check()
    assert caught.value.place == place
    with pytest.raises(SetupError, match="at least 1"):
        make_method("auto-datnet", [], corpora[1]).check()


def test_presets_hold_what_the_paper_says(make_method: Make, corpora: tuple[Corpus, Corpus]) -> None:
    from nershift.run import resolve

    config = resolve("datnet", {"preset": "paper"})
    assert (config.encoder.words.size, config.encoder.words.train) == (50, False)
    assert (config.encoder.recurrent.cell, config.encoder.recurrent.size) == ("lstm", 200)
    assert (config.train.lr, config.train.schedule, config.train.lr_decay) == (1e-3, "inverse", 0.05)
    assert resolve("datnet", {"preset": "released"}).options["alpha"] == 0.5


def test_a_resumed_run_ends_with_the_same_weights(phase_of: Make, tmp_path: Path) -> None:
    settings = {"train": {"max_steps": 7}}
    whole = run_loop(phase_of(settings, variant="P"), tmp_path / "whole")
    for stop in (2, 5):
        with pytest.raises(Interrupted):
            run_loop(phase_of(settings, variant="P"), tmp_path / "cut", stop_after=stop)
    resumed = run_loop(phase_of(settings, variant="P"), tmp_path / "cut")
    assert all(torch.equal(resumed[n], value) for n, value in whole.items())


@pytest.mark.parametrize("variant", ["F", "P"])
def test_the_deployed_tagger_is_a_plain_encoder_and_decoder(
    tiny: dict[str, Any], corpora: tuple[Corpus, Corpus], tmp_path: Path, variant: str
) -> None:
    settings = {"options": {"variant": variant, "private_size": 6, "test_oracle": True}}
    run = transfer("datnet", corpora[1], [corpora[0]], out=tmp_path / "run", config=merge(tiny, settings), quiet=True)
    tagger = run.tagger()
    assert type(tagger.model.encoder) is (SharedPrivateEncoder if variant == "P" else RecurrentEncoder)
    assert [key for key, _ in tagger.model.named_heads()] == ["target"]
    assert not tagger.model.extras
    gold, predicted = run.predictions()
    assert [s.spans for s in tagger.tag_sentences(gold)] == [s.spans for s in predicted]
    stage = run.metrics["phases"]["train"]
    assert stage["test_oracle_f1"] >= run.f1
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    assert "Shared states" in page
    assert "A-distance" in page


def test_auto_datnet_tells_its_choice_in_the_report(
    tiny: dict[str, Any], corpora: tuple[Corpus, Corpus], tmp_path: Path
) -> None:
    run = transfer("auto-datnet", corpora[1], [corpora[0]], out=tmp_path / "run", config=tiny, quiet=True)
    assert run.metrics["remarks"] == [
        "DATNet-F, since source and target are of one language.",
        "One head for both sides, since both have organisation, person, place.",
    ]
    assert "DATNet-F, since" in (run.folder / "report.html").read_text(encoding="utf-8")


def test_frozen_words_without_vectors_are_told(
    tiny: dict[str, Any], corpora: tuple[Corpus, Corpus], tmp_path: Path
) -> None:
    """The paper freezes its vectors; without a file of them that trains nothing of the words."""
    run = transfer("auto-datnet", corpora[1], [corpora[0]], out=tmp_path / "run", config=tiny, quiet=True)
    assert "encoder.words.vectors" in {row["kind"]: row["fix"] for row in run.metrics["warnings"]}["frozen_words"]
    learned = merge(tiny, {"encoder": {"words": {"train": True}}})
    run = transfer("auto-datnet", corpora[1], [corpora[0]], out=tmp_path / "learned", config=learned, quiet=True)
    assert "frozen_words" not in {row["kind"] for row in run.metrics["warnings"]}
