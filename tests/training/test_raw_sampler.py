"""Raw text as batches: each sentence once an epoch, batch k a function of k, memory bounded."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from nershift.config import EncoderConfig, build
from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.errors import SetupError
from nershift.model import TaggingModel
from nershift.text.counts import BOUNDARY, OutputWords
from nershift.training.raw_sampler import RawBatchSampler

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def model(make_corpus: MakeCorpus) -> TaggingModel:
    torch.manual_seed(0)
    small = {
        "words": {"size": 6},
        "chars": {"filters": 4, "size": 3},
        "recurrent": {"size": 4, "cell": "lstm"},
    }
    return TaggingModel(make_encoder(build(EncoderConfig, small), make_corpus("news").train), {})


def text_of(n: int) -> list[Sentence]:
    return [Sentence.of([f"s{i}", *["Leeds"] * (i % 7)]) for i in range(n)]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 59, 60, 61, 150, 151, 400])
def test_an_epoch_has_every_sentence_once(model: TaggingModel, n: int) -> None:
    sampler = RawBatchSampler(model, "t", text_of(n), 3, seed=1)
    assert sampler.per_epoch == -(-n // 3)
    for epoch in range(3):
        batches = [sampler.batch(epoch * sampler.per_epoch + k) for k in range(sampler.per_epoch)]
        assert Counter(s.tokens[0] for b in batches for s in b.sentences) == Counter(f"s{i}" for i in range(n))
        assert all(len(b) <= 3 for b in batches)


def test_batch_k_does_not_depend_on_what_was_asked_before(model: TaggingModel) -> None:
    def drawn(order: list[int], **settings: int) -> dict[int, list[tuple[str, ...]]]:
        sampler = RawBatchSampler(model, "t", text_of(400), 2, **{"seed": 1} | settings)
        return {k: [s.tokens for s in sampler.batch(k).sentences] for k in order}

    forward = drawn(list(range(420)))
    some = [419, 3, 250, 0, 199, 200, 201, 3]
    assert drawn(some) == {k: forward[k] for k in some}
    assert forward[0] != forward[200]  # another epoch, another order
    assert drawn([0, 1, 2], seed=2) != {k: forward[k] for k in (0, 1, 2)}


def test_processes_share_a_batch(model: TaggingModel) -> None:
    sampler = RawBatchSampler(model, "t", text_of(40), 8, seed=1)
    whole = [s.tokens for s in sampler.batch(2).sentences]
    parts = [[s.tokens for s in sampler.batch(2, rank, 3).sentences] for rank in range(3)]
    assert sorted(t for part in parts for t in part) == sorted(whole)


def test_words_to_predict_stand_at_their_places(model: TaggingModel) -> None:
    sentences = [Sentence.of(["Ada", "left", "1998"]), Sentence.of(["left"])]
    vocabulary = OutputWords(["left", "0000"], np.ones(4) / 4)
    batch = RawBatchSampler(model, "t", sentences, 2, seed=1, vocabulary=vocabulary).batch(0)
    rows = {s.tokens: row.tolist() for s, row in zip(batch.sentences, batch.inputs["words"], strict=True)}
    assert rows == {("Ada", "left", "1998"): [0, 2, 3], ("left",): [2, BOUNDARY, BOUNDARY]}


def test_inputs_are_those_of_the_encoder_whatever_was_forgotten(model: TaggingModel, tmp_path: Path) -> None:
    path = tmp_path / "t.raw"
    path.write_text("".join(" ".join(s.tokens) + "\n" for s in text_of(500)))
    sampler = RawBatchSampler(model, "t", RawText(path), 2, seed=1)
    labelled = model.encoder.prepare(["Leeds", "Ada"])  # a labelled feed's features stay valid
    model.eval()
    for k in (0, 60, 130, 249):
        batch = sampler.batch(k)
        assert len(sampler.sentences) <= 50 * 2
        assert len(sampler._cache) <= 1 + 1 + 100
        rows = [model.encoder.prepare(s.tokens) for s in batch.sentences]
        expected = model.encoder(**model.encoder.collate(rows))
        torch.testing.assert_close(model.states(batch), expected)
    np.testing.assert_array_equal(model.encoder.prepare(["Leeds", "Ada"]), labelled)


def test_no_text_is_refused(model: TaggingModel) -> None:
    with pytest.raises(SetupError, match="no sentences"):
        RawBatchSampler(model, "t", [], 2, seed=1)


def test_memory_does_not_grow_with_the_text(
    model: TaggingModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counting its words and drawing batches from all over it, at 2,000 sentences and at six times as many."""
    monkeypatch.setattr("nershift.data.raw._MARKS", 256)
    peaks = []
    for lines in (2_000, 12_000):
        path = tmp_path / f"{lines}.txt"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(f"word{chr(97 + i % 26)}{chr(97 + i % 17)} is here .\n" for i in range(lines))
        tracemalloc.start()
        text = RawText(path)
        words = OutputWords.of({"text": text}, size=100)
        sampler = RawBatchSampler(model, "text", text, 8, 1, words)
        for k in range(0, sampler.per_epoch, sampler.per_epoch // 5):
            sampler.batch(k)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]
