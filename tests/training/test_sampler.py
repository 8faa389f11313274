from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from nershift.config import Config, TrainConfig, build
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence, in_parts
from nershift.encoders.base import make_encoder
from nershift.errors import DataError, SetupError
from nershift.heads.base import make_head
from nershift.model import TaggingModel
from nershift.training.sampler import BatchSampler
from nershift.training.seeding import generator, number, seed_torch
from nershift.training.stage import MixedStage, TrainingStage

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def model(make_corpus: MakeCorpus, tiny: dict[str, Any]) -> TaggingModel:
    corpus = make_corpus()
    encoder = make_encoder(build(Config, tiny).encoder, corpus.train)
    return TaggingModel(encoder, {"target": make_head("crf", corpus.label_space(), encoder.size)})


@pytest.fixture
def sampler(model: TaggingModel, make_corpus: MakeCorpus) -> BatchSampler:
    return BatchSampler(model, "target", make_corpus(train=43).train, 8, seed=3)


def test_an_epoch_shows_each_sentence_once(sampler: BatchSampler) -> None:
    assert sampler.per_epoch == 6
    for epoch in range(3):
        shown = [i for k in range(6) for i in sampler.indices(epoch * 6 + k)]
        assert sorted(shown) == list(range(43))


def test_a_batch_is_a_function_of_seed_and_number(
    model: TaggingModel, make_corpus: MakeCorpus, sampler: BatchSampler
) -> None:
    rows = make_corpus(train=43).train
    inorder = [sampler.indices(k) for k in range(18)]
    again = BatchSampler(model, "target", rows, 8, seed=3)
    assert [again.indices(k) for k in reversed(range(18))] == inorder[::-1]
    other = BatchSampler(model, "target", rows, 8, seed=4)
    assert [other.indices(k) for k in range(18)] != inorder
    assert inorder[:6] != inorder[6:12]


def test_batches_hold_the_tags_of_their_sentences(sampler: BatchSampler, model: TaggingModel) -> None:
    batch = sampler.batch(2)
    assert len(batch) == len(sampler.indices(2))
    assert batch.targets is not None
    space = model.head("target").space
    for sentence, tags, mask in zip(batch.sentences, batch.targets, batch.mask, strict=True):
        assert int(mask.sum()) == len(sentence)
        assert space.decode(tags[mask].tolist()) == list(sentence.spans)
        assert not tags[~mask].any()


@pytest.mark.parametrize("world", [2, 3])
def test_processes_share_out_a_batch(sampler: BatchSampler, world: int) -> None:
    for k in range(6):
        parts = [sampler.batch(k, rank, world) for rank in range(world)]
        joint = [sampler.sentences[i] for i in sampler.indices(k)]
        if len(joint) >= world:
            assert sorted((s for p in parts for s in p.sentences), key=repr) == sorted(joint, key=repr)
            assert max(map(len, parts)) - min(map(len, parts)) <= 1
    small = BatchSampler(sampler.model, "target", sampler.sentences[:1], 8, seed=1)
    assert [len(small.batch(0, rank, 2)) for rank in range(2)] == [1, 1]


def test_raw_text_has_no_tags(model: TaggingModel) -> None:
    sampler = BatchSampler(model, "anything", [Sentence.of(["some", "words"])], 4, seed=1, labelled=False)
    assert sampler.batch(0).targets is None


def test_nothing_to_train_on(model: TaggingModel) -> None:
    with pytest.raises(SetupError, match="no sentences"):
        BatchSampler(model, "target", [Sentence.of([])], 4, seed=1)
    with pytest.raises(DataError, match="entity type 'gene'"):
        BatchSampler(model, "target", [Sentence.of(["x"], [(0, 1, "gene")])], 4, seed=1)


def test_phases_draw_from_all_feeds_or_from_one(model: TaggingModel, make_corpus: MakeCorpus) -> None:
    samplers = {
        "a": BatchSampler(model, "target", make_corpus(train=20).train, 8, seed=1),
        "b": BatchSampler(model, "target", make_corpus(train=9, seed=5).train, 8, seed=1),
    }
    all_at_once = TrainingStage("p", model, TrainConfig(), samplers, seed=1)
    assert all_at_once.steps_per_epoch == 3
    assert set(all_at_once.draw(0, 0, 1)) == {"a", "b"}
    mixed = MixedStage("p", model, TrainConfig(), samplers, seed=1)
    assert mixed.steps_per_epoch == 5
    for epoch in range(3):
        drawn = [mixed.draw(epoch * 5 + i, 0, 1) for i in range(5)]
        assert sorted(name for d in drawn for name in d) == ["a", "a", "a", "b", "b"]
        shown = [s for d in drawn for b in d.values() for s in b.sentences]
        assert len(shown) == 29
    balanced = MixedStage("p", model, TrainConfig(min_source_share=1.0), samplers, seed=1)
    assert balanced.steps_per_epoch == 6  # the smaller one passes once and a half
    drawn = [balanced.draw(i, 0, 1) for i in range(12)]
    assert sorted(name for d in drawn for name in d) == ["a"] * 6 + ["b"] * 6
    assert sum(len(d["b"]) for d in drawn if "b" in d) == 3 * 9
    again = MixedStage("p", model, TrainConfig(), samplers, seed=1)
    assert [b.sentences for b in again.draw(13, 0, 1).values()] == [b.sentences for b in mixed.draw(13, 0, 1).values()]


def test_randomness_is_named() -> None:
    assert number("a", 1) == number("a", 1) != number("a", 2)
    assert 0 <= number("x") < 2**63
    assert generator(1, "x").random() == generator(1, "x").random()
    seed_torch(1, "x")
    first = torch.rand(3)
    seed_torch(1, "x")
    assert torch.equal(torch.rand(3), first)


@pytest.mark.parametrize("longest", [1, 3, 4, 100])
def test_long_sentences_are_trained_on_in_parts(longest: int) -> None:
    sentence = Sentence.of(list("abcdefghij"), [(1, 4, "X"), (6, 7, "Y"), (9, 10, "X")])
    parts = in_parts(sentence, longest)
    assert "".join(token for part in parts for token in part.tokens) == "abcdefghij"
    assert [p.mention(s) for p in parts for s in p.spans] == [sentence.mention(s) for s in sentence.spans]
    assert max(len(p) for p in parts[:-1] or [()]) <= max(longest + 2, 3)  # no entity is cut
    assert (parts == [sentence]) == (longest >= len(sentence))


def test_swapped_batches_hold_other_entities_under_the_same_tags(model: TaggingModel, make_corpus) -> None:
    rows = make_corpus(train=43).train
    plain, swapping = (
        BatchSampler(model, "target", rows, 8, seed=3),
        BatchSampler(model, "target", rows, 8, seed=3, mention_replacement=0.5),
    )
    again = BatchSampler(model, "target", rows, 8, seed=3, mention_replacement=0.5)
    entities = {s.tokens[e.start : e.end] for s in rows for e in s.spans}
    changed = 0
    for k in range(12):
        assert plain.indices(k) == swapping.indices(k)
        batch, same, before = swapping.batch(k), again.batch(k), plain.batch(k)
        for name, value in batch.inputs.items():
            assert torch.equal(value, same.inputs[name])  # a function of the seed and k alone
        for sentence, old in zip(batch.sentences, before.sentences, strict=True):
            assert [s.label for s in sentence.spans] == [s.label for s in old.spans]
            assert {sentence.tokens[s.start : s.end] for s in sentence.spans} <= entities
            changed += sentence.tokens != old.tokens
        tags = [model.head("target").targets(s) for s in batch.sentences]
        assert batch.targets is not None
        for row, expected in zip(batch.targets, tags, strict=True):
            assert row[: len(expected)].tolist() == list(expected)
    assert changed > 12
    assert torch.equal(swapping.as_labelled(plain.indices(0)).mask, plain.batch(0).mask)
    for name, value in plain.batch(0).inputs.items():
        assert torch.equal(swapping.as_labelled(plain.indices(0)).inputs[name], value)
