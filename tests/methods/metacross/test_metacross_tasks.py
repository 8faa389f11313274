"""MetaCross: tasks, masks, the loop against the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.errors import SetupError
from nershift.methods.metacross.stage import PseudoTaskStage
from nershift.training.seeding import seed_torch
from nershift.training.stage import TrainingStage

pytest.importorskip("transformers")
Make = Callable[..., Any]
MakeCorpus = Callable[..., Corpus]


def gradients(stage: TrainingStage, step: int = 0) -> dict[str, Tensor]:
    stage.model.train()
    for module in stage.model.modules():  # dropout draws other masks for a batch than for its sentences
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    stage.model.zero_grad()
    seed_torch(1, step)
    stage.gradients(stage.draw(step, 0, 1), Tensor.backward)
    return {n: p.grad.clone() for n, p in stage.model.named_parameters() if p.grad is not None}


def phase_of(make_method: Make, source: Corpus, settings: dict[str, Any], **options: Any) -> PseudoTaskStage:
    made = make_method("metacross", [source], settings=merge(settings, {"options": options})).pretrain()
    assert isinstance(made, PseudoTaskStage)
    return made


def test_every_sentence_is_a_task_of_its_nearest_others(
    make_method: Make, source: Corpus, settings: dict[str, Any]
) -> None:
    stage = phase_of(make_method, source, settings, neighbours=3)
    sampler = stage.sampler
    texts = [s.tokens for s in sampler.index.sentences]
    assert len(set(texts)) == len(texts) < len(source.train)  # the corpus repeats itself, the index does not
    for i, sentence in enumerate(sampler.sentences):
        found = sampler.neighbours(i)
        assert len(set(found)) == 3
        assert sentence.tokens not in [texts[j] for j in found]
    batches = stage.draw(0, 0, 1)
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
        stage = phase_of(make_method, source, settings, batched=batched, **options)
        assert stage.batched == (batched == "always")
        stage.model.double()
        found[batched] = gradients(stage)
    assert set(found["always"]) == set(found["never"])
    for name, expected in found["never"].items():
        assert (found["always"][name] - expected).norm() <= 1e-6 * expected.norm() + 1e-10, name


def test_without_inner_steps_it_is_the_sum_of_query_gradients(
    make_method: Make, source: Corpus, settings: dict[str, Any]
) -> None:
    """Eqs. 10 and 12 at θ' = θ, loss by hand: mean of the tokens' cross-entropies and twice the largest."""
    for batched in ("always", "never"):
        stage = phase_of(make_method, source, settings, inner_steps=0, mask_rate=0.0, batched=batched)
        found = gradients(stage)
        model = stage.model
        total = torch.zeros(())
        for i in stage.sampler.indices(0):
            sentence = stage.sampler.sentences[i]
            batch = model.batch("shared", [sentence], [model.encoder.prepare(sentence.tokens)])
            logits = model.head("shared").project(model.states(batch))[0]
            tags = torch.tensor(model.head("shared").targets(sentence))
            losses = torch.nn.functional.cross_entropy(logits, tags, reduction="none")
            total = total + losses.mean() + 2.0 * losses.max()
        model.zero_grad()
        total.backward()
        for name, value in found.items():
            torch.testing.assert_close(value, model.get_parameter(name).grad, rtol=1e-4, atol=1e-5)


def test_entities_are_masked_anew_each_epoch(make_method: Make, source: Corpus, settings: dict[str, Any]) -> None:
    stage = phase_of(make_method, source, settings, mask_rate=0.5)
    sampler, hidden = stage.sampler, stage.model.encoder.tokenizer.mask_token_id
    counts = {}
    for epoch in range(2):
        masked = 0
        for i, sentence in enumerate(sampler.sentences):
            pieces = stage.sampler.masked(epoch, "query", i)
            again = stage.sampler.masked(epoch, "query", i)
            assert (pieces.at, [list(w) for w in pieces.ids]) == (again.at, [list(w) for w in again.ids])
            inside = {at for span in sentence.spans for at in range(span.start, span.end)}
            gone = {at for at, (w, p) in enumerate(pieces.at) if pieces.ids[w][p] == hidden}
            assert gone <= inside
            masked += len(gone)
            counts.setdefault(epoch, []).append(gone)
        assert 0.3 < masked / sum(len(x) for s in sampler.sentences for x in [_inside(s)]) < 0.7
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
    for i, sentence in enumerate(word.sampler.sentences):
        plain = word.model.encoder.prepare(sentence.tokens)
        a, b = word.sampler.masked(0, "query", i), first.sampler.masked(0, "query", i)
        assert a.at == b.at == plain.at  # masks change no position
        several += sum(row.count(hidden) for row in a.ids) - sum(row.count(hidden) for row in b.ids)
    assert several > 0
    support = word.sampler.index.sentences[0]
    assert first.sampler.masked(0, "support", 0).ids == first.model.encoder.prepare(support.tokens).ids
    assert hidden in word.sampler.masked(0, "support", 0).ids[0]


def test_masks_hide_tokens_in_every_window_that_shows_them(make_method: Make, source: Corpus, settings: Any) -> None:
    encoder = phase_of(make_method, source, settings).model.encoder
    tokens = ["Ada", "flew", "from", "Leeds", "to", "Porto", "."] * 5
    pieces = encoder.prepare(tokens, {i for i, t in enumerate(tokens) if t == "Leeds"})
    leeds = encoder.tokenizer("Leeds", add_special_tokens=False)["input_ids"][0]
    assert len(pieces.ids) > 1
    assert leeds not in {i for row in pieces.ids for i in row}


def test_the_inner_rate_can_follow_the_schedule(make_method: Make, source: Corpus, settings: Any) -> None:
    over = {"pretrain": {"schedule": "linear", "warmup": 0.5, "max_steps": 8, "epochs": 9}}
    stage = phase_of(make_method, source, merge(settings, over), inner_schedule=True)
    rates = [stage._rule(stage.draw(step, 0, 1)["query 0"]).rate for step in range(8)]
    assert max(rates) <= 0.01
    assert rates[0] < rates[2] > rates[7] > 0
    still = phase_of(make_method, source, settings)
    assert still._rule(still.draw(3, 0, 1)["query 0"]).rate == 0.01


def test_processes_share_out_the_tasks(make_method: Make, source: Corpus, settings: Any) -> None:
    """Their gradients, averaged by numbers of sentences, are those of one process."""
    whole = gradients(phase_of(make_method, source, settings))
    stage = phase_of(make_method, source, settings)
    total = {n: torch.zeros_like(g) for n, g in whole.items()}
    for module in stage.model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    for rank in range(2):
        stage.model.zero_grad()
        stage.gradients(stage.draw(0, rank, 2), Tensor.backward)
        for n in total:
            total[n] += stage.model.get_parameter(n).grad / 2
    for n, g in whole.items():
        torch.testing.assert_close(total[n], g, rtol=1e-3, atol=1e-4)


def test_too_few_sentences_for_a_task(make_method: Make, make_corpus: MakeCorpus, settings: dict[str, Any]) -> None:
    stage = phase_of(make_method, make_corpus("news", train=2), settings, neighbours=2)
    with pytest.raises(SetupError, match="2 neighbours were asked"):
        stage.draw(0, 0, 1)
