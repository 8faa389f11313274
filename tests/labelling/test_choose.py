"""Which sentences come next: greedy choice against a plain version, and everything that must never be chosen."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.functional import normalize

from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.errors import ConfigError, SetupError
from nershift.labelling import choose as module
from nershift.labelling.choose import choose, spread
from nershift.labelling.uncertainty import uncertainties
from nershift.run import transfer
from nershift.tagger.tagger import Tagger

MakeCorpus = Callable[..., Corpus]


def plainly(vectors: torch.Tensor, weights: torch.Tensor, count: int, known: torch.Tensor, power: float) -> list[int]:
    chosen: list[int] = []
    for _ in range(count):
        worth = []
        for i in range(len(vectors)):
            others = [*known, *(vectors[j] for j in chosen)]
            away = min((float(1 - vectors[i] @ o) / 2 for o in others), default=1.0)
            worth.append(-1.0 if i in chosen else float(weights[i]) * max(away, 0.0) ** power)
        chosen.append(max(range(len(worth)), key=lambda i: (worth[i], -i)))
    return chosen


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]))
def test_greedy_choice_against_a_plain_one(seed: int, known: int, power: float) -> None:
    torch.manual_seed(seed)
    vectors, others, weights = normalize(torch.randn(12, 4)), normalize(torch.randn(known, 4)), torch.rand(12)
    rows, distances = spread(vectors, weights, 5, others, power)
    assert rows == plainly(vectors, weights, 5, others, power)
    assert all(0 <= d <= 1 for d in distances)


def test_ties_and_twins() -> None:
    same = normalize(torch.ones(3, 2))
    assert spread(same, torch.ones(3), 3, same[:0])[0] == [0, 1, 2]
    assert spread(same, torch.tensor([0.1, 0.3, 0.2]), 2, same[:0], 0.0)[0] == [1, 2]


@pytest.fixture(scope="module")
def tagger(make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Tagger:
    config = {
        "device": "cpu",
        "encoder": {
            "words": {"size": 12},
            "chars": {"filters": 8},
            "recurrent": {"size": 10},
            "dropout": 0.1,
        },
        "train": {"epochs": 3, "batch_size": 8, "lr": 0.02},
    }
    out = tmp_path_factory.mktemp("run") / "r"
    return transfer("target_only", make_corpus("news"), out=out, config=config, quiet=True, report=False).tagger()


def test_what_is_chosen(tagger: Tagger, make_corpus: MakeCorpus) -> None:
    pool = make_corpus("news", train=60, seed=1).train
    made = choose(tagger, pool, 8)
    again = choose(tagger, pool, 8)
    assert made == again
    assert made.read == 60
    assert len({c.sentence.tokens for c in made.chosen}) == 8
    known = uncertainties(tagger.model, tagger.key, pool)
    for c in made.chosen:
        assert pool[c.position].tokens == c.sentence.tokens
        assert c.uncertainty == pytest.approx(float(known[c.position]), abs=1e-5)
        assert all(s.score is not None for s in c.sentence.spans)
    assert made.chosen[0].uncertainty == pytest.approx(float(known.max()), abs=1e-5)  # nothing is near the first one


def test_uncertainty_alone(tagger: Tagger, make_corpus: MakeCorpus) -> None:
    made = choose(tagger, make_corpus("news", train=60, seed=1).train, 8, diversity=0)
    found = [c.uncertainty for c in made.chosen]
    assert found == sorted(found, reverse=True)


def test_more_diversity_chooses_less_alike_sentences(tagger: Tagger, make_corpus: MakeCorpus) -> None:
    pool = [*make_corpus("news", train=60, seed=1).train, *make_corpus("clinic", train=20).train]
    alone, spread_out = (choose(tagger, pool, 10, diversity=d) for d in (0.0, 4.0))

    def mean(made: module.Choice) -> float:
        return sum(c.distance for c in made.chosen) / len(made.chosen)

    assert mean(spread_out) > mean(alone)


def test_never_chosen(tagger: Tagger, make_corpus: MakeCorpus) -> None:
    pool = list(dict.fromkeys(make_corpus("news", train=40, seed=2).train))
    labelled = pool[:5]
    crowded = [Sentence.of([]), *pool, *pool[5:9]]
    made = choose(tagger, crowded, len(pool) - 5, labelled=labelled)
    assert {c.sentence.tokens for c in made.chosen} == {s.tokens for s in pool[5:]}
    assert made.left_out == {"without tokens": 1, "already labelled": 5, "repeated": 4}
    with pytest.raises(SetupError, match=f"asked of {len(pool) - 5} that can be chosen"):
        choose(tagger, crowded, len(pool) - 4, labelled=labelled)
    with pytest.raises(SetupError, match="a pool of sentences without labels"):
        choose(tagger, labelled, 1, labelled=labelled)


def test_labels_of_the_pool_are_not_looked_at(tagger: Tagger, make_corpus: MakeCorpus) -> None:
    pool = make_corpus("news", train=30, seed=3).train
    assert choose(tagger, pool, 5) == choose(tagger, [s.with_spans(()) for s in pool], 5)


def test_chunks_and_files_change_nothing(
    tagger: Tagger, make_corpus: MakeCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = make_corpus("news", train=50, seed=4).train
    whole = choose(tagger, pool, 6)
    (tmp_path / "pool.raw").write_text("".join(" ".join(s.tokens) + "\n" for s in pool))
    monkeypatch.setattr(module, "CHUNK", 7)
    parts = choose(tagger, RawText(tmp_path / "pool.raw"), 6)
    assert [c.position for c in parts.chosen] == [c.position for c in whole.chosen]
    monkeypatch.setattr(module, "_FEWEST_CANDIDATES", 1)
    monkeypatch.setattr(module, "CANDIDATES", 1)
    only: Any = choose(tagger, pool, 6)
    alone = choose(tagger, pool, 6, diversity=0)
    assert {c.position for c in only.chosen} == {c.position for c in alone.chosen}


def test_wrong_numbers(tagger: Tagger, make_corpus: MakeCorpus) -> None:
    pool = make_corpus("news", train=5).train
    with pytest.raises(ConfigError, match="--diversity"):
        choose(tagger, pool, 1, diversity=-1)
    with pytest.raises(ConfigError, match="--count"):
        choose(tagger, pool, 0)
