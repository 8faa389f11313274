"""What a finished run says of itself: every warning, and the runs that must not get it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from nershift.config import Config, TrainConfig, merge, to_dict
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.evaluation.metrics import Counts, Scores
from nershift.evaluation.run_warnings import LEVELS, RunWarning, run_warnings
from nershift.run import transfer

MakeCorpus = Callable[..., Corpus]


def scores(
    correct: int = 80, predicted: int = 100, support: int = 100, sentences: int = 40, **by_type: Counts
) -> dict[str, Any]:
    return Scores(Counts(correct, predicted, support), by_type, sentences).to_dict()


def log_of(*dev_f1: float | None, stage: str = "train", every: int = 100) -> list[dict[str, Any]]:
    return [
        {"phase": stage, "step": every * n, "loss": 1.0, "dev_f1": f1} for n, f1 in enumerate(dev_f1, start=1)
    ]  # fmt: skip


def a_stage(**changed: Any) -> dict[str, Any]:
    plain = {"steps": 1000, "best_step": 600, "dev_f1": 0.8, "total": 1000, "first_loss": 20.0, "last_loss": 0.5}
    return {**plain, **changed}


def good(**changed: Any) -> dict[str, Any]:
    """``metrics.json`` of a run that has nothing to say, but for what is changed."""
    plain = {
        "sources": ["news"],
        "start": None,
        "labelled": 50,
        "labelled_mentions": {"person": 300},
        "selection": "best dev F1",
        "phases": {"train": a_stage()},
        "dev": scores(person=Counts(80, 100, 100)),
        "test": scores(person=Counts(80, 100, 100)),
    }
    return {**plain, **changed}


def config(**changed: Any) -> dict[str, Any]:
    return merge(to_dict(Config(train=TrainConfig(epochs=0))), changed)


def kinds(
    metrics: Mapping[str, Any], log: list[dict[str, Any]] | None = None, settings: Mapping[str, Any] | None = None
) -> dict[str, RunWarning]:
    return {w.kind: w for w in run_warnings(metrics, log or [], config() if settings is None else settings)}


FAILED = scores(0, 0, 400)


def test_a_good_run_says_nothing() -> None:
    assert run_warnings(good(), log_of(0.5, 0.8, 0.7), config()) == []


@pytest.mark.parametrize("metrics", [{}, {"phases": {"train": {"steps": 3, "best_step": 3, "dev_f1": 0.1}}}])
def test_what_old_runs_did_not_record_gives_no_warning(metrics: dict[str, Any]) -> None:
    assert run_warnings(metrics, [{"step": 1}], {}) == []
    old = {"labelled": 40, "selection": "best dev F1", "dev": None, "phases": {"train": None}}
    assert run_warnings(metrics | old, log_of(None), {"seed": 1}) == []


def test_old_runs_in_the_repository() -> None:
    folders = [p.parent for p in Path(__file__).parents[1].glob("runs_of_0_1/**/metrics.json")]
    assert folders
    for folder in folders:
        metrics = json.loads((folder / "metrics.json").read_text(encoding="utf-8"))
        assert all(w.fix and w.found for w in run_warnings(metrics))


def test_the_worst_comes_first() -> None:
    metrics = good(dev=FAILED, sources=[], phases={"train": a_stage(total=60, steps=60, last_loss=15.0)})
    frozen = {"words": {"train": False}}
    found = run_warnings(metrics, log_of(0.0, 0.0), config(train={"epochs": 30}, encoder=frozen))
    levels = [LEVELS.index(w.level) for w in found]
    assert set(levels) == {0, 1, 2}
    assert levels == sorted(levels)
    assert found[0].kind == "unusable"


# -- of no use -----------------------------------------------------------------------------------------------


def test_an_unusable_tagger() -> None:
    found = kinds(good(dev=FAILED))["unusable"]
    assert found.level == "failed"
    assert found.found == "This tagger is not usable: F1 0.00 on dev. It found none of the 400 entities."
    some = kinds(good(dev=scores(2, 50, 100)))["unusable"]
    assert some.found.endswith("F1 2.67 on dev. It found 2 of the 100 entities; 48 of its 50 are wrong.")


def test_test_is_judged_where_dev_has_no_entities() -> None:
    assert "on test" in kinds({"test": FAILED})["unusable"].found
    assert "on test" in kinds({"dev": scores(0, 0, 0), "test": FAILED})["unusable"].found
    assert "unusable" not in kinds({"dev": scores(), "test": FAILED})
    assert "unusable" not in kinds({"dev": scores(0, 0, 0), "test": scores(0, 0, 0)})


@pytest.mark.parametrize(("correct", "unusable"), [(4, True), (5, False)])
def test_where_use_begins(correct: int, unusable: bool) -> None:
    assert ("unusable" in kinds(good(dev=scores(correct)))) == unusable


def test_the_next_step_depends_on_what_the_run_lacked() -> None:
    rich = config(encoder={"kind": "transformer"})
    assert "learning rate" in kinds(good(dev=FAILED), settings=rich)["unusable"].fix
    few = kinds(good(dev=FAILED, labelled_mentions={"person": 11, "place": 1}), settings=rich)["unusable"]
    assert "It learned from 12 labelled entities." in few.found
    assert few.fix == "What may help: more labelled sentences."
    alone = kinds(good(dev=FAILED, sources=[]), settings=rich)["unusable"]
    assert "--source CORPUS" in alone.fix
    assert "--source" not in kinds(good(dev=FAILED, sources=[], start={"kind": "finished run"}))["unusable"].fix
    plain = kinds(good(dev=FAILED))["unusable"].fix
    assert "encoder.transformer.name=NAME" in plain
    assert plain.endswith("or word vectors (`--set encoder.words.vectors=FILE`).")
    vectors = config(encoder={"words": {"vectors": "glove.txt"}})
    assert "words.vectors" not in kinds(good(dev=FAILED), settings=vectors)["unusable"].fix
    short = good(dev=FAILED, phases={"train": a_stage(total=60)})
    assert "more updates" in kinds(short, settings=config(train={"updates": 60}))["unusable"].fix
    assert (
        "more updates (`--set train.updates=1000`)"
        in kinds(short, settings=config(train={"epochs": 30}))["unusable"].fix
    )


def test_almost_nothing_found_or_almost_all_wrong() -> None:
    few = kinds(good(dev=scores(16, 16, 400)))
    assert list(few) == ["few_found"]
    assert "It found 16 of the 400 entities" in few["few_found"].found
    wrong = kinds(good(dev=scores(36, 400, 100)))
    assert list(wrong) == ["mostly_wrong"]
    assert "364 of its 400 are wrong" in wrong["mostly_wrong"].found
    assert "few_found" not in kinds(good(dev=FAILED))  # that is said already


# -- not trained enough --------------------------------------------------------------------------------------


def ended_at_its_best(**changed: Any) -> dict[str, Any]:
    return good(phases={"train": a_stage(**{"steps": 400, "best_step": 400, "total": 400, "dev_f1": 0.8} | changed)})


def test_a_teacher_that_finds_too_little_in_the_text() -> None:
    def said(**found: float) -> set[str]:
        return {k for k in kinds(good(phases={"train": a_stage(**found)})) if "teacher" in k}

    assert said(text_filled=0.0, gold_filled=0.5) == said(text_filled=0.0) == {"silent_teacher"}
    assert said(text_filled=0.1, gold_filled=0.5) == {"shy_teacher"}
    assert said(text_filled=0.2, gold_filled=0.5) == said(text_filled=0.1) == said() == set()


def test_best_at_the_last_update() -> None:
    found = kinds(ended_at_its_best(), log_of(0.2, 0.4, 0.6, 0.8))["undertrained"]
    assert found.level == "warning"
    assert "80.00, came with the last of 400 updates" in found.found
    assert found.fix == "`nershift resume RUN --updates 400` goes on."


def test_going_on_is_worth_the_while() -> None:
    short = ended_at_its_best(steps=20, best_step=20, total=20)
    assert "--updates 200`" in kinds(short, log_of(0.2, 0.8, every=10))["undertrained"].fix


def test_many_small_gains_are_a_gain() -> None:
    rising = [0.76 + 0.002 * n for n in range(21)]
    assert "undertrained" in kinds(ended_at_its_best(), log_of(*rising, every=19))


@pytest.mark.parametrize(
    ("changed", "dev_f1"),
    [
        ({}, (0.2, 0.7, 0.797, 0.8)),  # flat
        ({}, (0.8,)),  # one evaluation says nothing
        ({}, ()),
        ({"best_step": 300}, (0.2, 0.4, 0.8, 0.7)),
        ({"total": 1000}, (0.2, 0.4, 0.6, 0.8)),  # stopped by patience
        ({"dev_f1": None, "best_step": 0}, (None, None)),  # nothing selected
    ],
)
def test_trained_enough(changed: dict[str, Any], dev_f1: tuple[float | None, ...]) -> None:
    assert "undertrained" not in kinds(ended_at_its_best(**changed), log_of(*dev_f1))


def test_only_the_log_of_the_stage_counts() -> None:
    both = [*log_of(0.8, 0.8, stage="pretrain"), *log_of(0.2, 0.4, 0.6, 0.8)]
    assert "undertrained" in kinds(ended_at_its_best(), both)


def test_pretraining_that_ended_too_early_is_a_hint() -> None:
    metrics = good(phases={"pretrain": a_stage(best_step=1000), "train": a_stage()})
    log = [*log_of(0.2, 0.4, 0.6, 0.8, stage="pretrain", every=250), *log_of(0.8, 0.8)]
    found = kinds(metrics, log)
    assert list(found) == ["pretraining_undertrained"]
    assert found["pretraining_undertrained"].level == "hint"
    assert found["pretraining_undertrained"].fix == "`--set pretrain.updates=2000`"
    by_epochs = kinds(metrics, log, config(pretrain={"epochs": 5}))
    assert by_epochs["pretraining_undertrained"].fix == "`--set pretrain.epochs=10`"


def unfitted(first: float, last: float, **changed: Any) -> dict[str, Any]:
    stages = {"train": a_stage(first_loss=first, last_loss=last)}
    return good(dev=scores(30), phases=stages, sources=[]) | changed


def test_the_loss_stayed_high() -> None:
    found = kinds(unfitted(20.0, 12.0), log_of(0.3, 0.3))["high_loss"]
    assert "fell only (20 at first, 12 at the end)" in found.found
    assert found.fix == "`nershift resume RUN --updates 1000` goes on."
    rose = kinds(unfitted(20.0, 21.0), log_of(0.3, 0.3), config(train={"lr": 0.02}))["high_loss"]
    assert "did not fall" in rose.found
    assert rose.fix == "A lower learning rate: `--set train.lr=0.002`."


@pytest.mark.parametrize(
    "changed",
    [
        {"phases": {"train": a_stage(last_loss=9.0)}},
        {"dev": scores()},  # a good score needs no low loss
        {"start": {"kind": "pretraining"}},  # it began with a low loss
        {"labelled_mentions": None},  # no labels of the target were learned
        {"phases": {"train": a_stage(first_loss=None)}},
    ],
)
def test_the_loss_fell_enough(changed: dict[str, Any]) -> None:
    assert "high_loss" not in kinds(unfitted(20.0, 12.0, **changed), log_of(0.3, 0.3))


def test_a_start_that_is_not_moved_at_all_is_told() -> None:
    stages = {"pretrain": a_stage(), "train": a_stage(first_loss=20.0, last_loss=19.0)}
    assert "high_loss" in kinds(unfitted(0, 0, phases=stages), log_of(0.3, 0.3))


def test_one_evaluation_says_nothing_of_the_loss() -> None:
    assert "high_loss" not in kinds(unfitted(20.0, 20.0), log_of(0.3))


def test_epochs_that_make_few_updates() -> None:
    metrics = good(phases={"train": a_stage(total=60, steps=60)})
    found = kinds(metrics, settings=config(train={"epochs": 30}))["few_updates"]
    assert found.found.startswith("30 epochs of 2 updates made only 60 updates")
    assert found.fix == "`--set train.updates=1000`"
    assert "few_updates" not in kinds(metrics, settings=config(train={"epochs": 30, "updates": 60}))  # as asked
    assert "few_updates" not in kinds(metrics, settings=config(train={"updates": 60}))
    enough = good(phases={"train": a_stage(total=200)})
    assert "few_updates" not in kinds(enough, settings=config(train={"epochs": 30}))


# -- types ---------------------------------------------------------------------------------------------------


def test_types_that_are_never_found() -> None:
    person = Counts(80, 100, 100)
    split = scores(person=person, award=Counts(0, 0, 7), place=Counts(0, 0, 9), rare=Counts(0, 0, 1))
    labelled = {"person": 300, "award": 3, "rare": 2}
    found = kinds(good(dev=split, test=split, labelled_mentions=labelled))
    assert list(found) == ["no_labels", "never_predicted"]
    assert found["never_predicted"].found == "Never found: award (14 in dev and test, 3 labelled)."
    assert "nershift next --model RUN" in found["never_predicted"].fix
    assert found["no_labels"].found == "No labelled sentence shows place (18 in dev and test): never found."


def test_types_that_are_found() -> None:
    once = scores(person=Counts(80, 99, 100), award=Counts(0, 1, 7))
    never = scores(person=Counts(80, 99, 100), award=Counts(0, 0, 7))
    assert kinds(good(dev=never, test=once, labelled_mentions={"person": 300, "award": 3})) == {}
    assert kinds(good(dev=once, test=once)) == {}  # found without a label: the source knew it
    assert "no_labels" not in kinds(good(dev=never, test=never, labelled_mentions=None))


def test_where_nothing_is_found_only_missing_labels_are_told() -> None:
    split = scores(0, 0, 100, person=Counts(0, 0, 90), award=Counts(0, 0, 10))
    assert list(kinds(good(dev=split, test=split))) == ["unusable", "no_labels"]


def test_a_long_list_of_types_is_cut() -> None:
    by_type = {f"t{n}": Counts(0, 0, 100 - n) for n in range(9)}
    split = Scores(Counts(80, 100, 100), by_type, 40).to_dict()
    found = kinds(good(dev=split, test=split))["no_labels"].found
    assert "t5 (190 in dev and test) and 3 more types" in found
    assert "t6" not in found


# -- words and selection -------------------------------------------------------------------------------------


def test_words_known_from_few_labels_alone() -> None:
    found = kinds(good(sources=[]))["random_words"]
    assert found.level == "hint"
    assert "50 labelled sentences" in found.found
    assert "words.vectors=FILE" in found.fix


@pytest.mark.parametrize(
    ("changed", "encoder"),
    [
        ({"sources": ["news"]}, {}),
        ({"start": {"kind": "pretraining"}}, {}),
        ({"labelled": 1000}, {}),
        ({"dev": FAILED, "test": FAILED}, {}),  # the failure names them
        ({}, {"kind": "transformer"}),
        ({}, {"words": {"vectors": "glove.txt"}}),
        ({}, {"words": {"subwords": "bert", "train": False}}),
    ],
)
def test_words_known_from_elsewhere(changed: dict[str, Any], encoder: dict[str, Any]) -> None:
    found = kinds(good(**{"sources": []} | changed), settings=config(encoder=encoder))
    assert not {"random_words", "frozen_words"} & set(found)


def test_words_that_are_frozen_noise() -> None:
    found = kinds(good(), settings=config(encoder={"words": {"train": False}}))
    assert list(found) == ["frozen_words"]
    assert "encoder.words.train=true" in found["frozen_words"].fix
    file = {"train": False, "vectors": "glove.txt"}
    assert kinds(good(), settings=config(encoder={"words": file})) == {}


def test_a_dev_split_larger_than_the_labels() -> None:
    found = kinds(good(dev=scores(sentences=380)))["large_dev"]
    assert found.level == "hint"
    assert "has 380 labelled sentences, more than the 50 counted as labels" in found.found
    assert "selection=held_out" in found.fix
    for selection in ("last", "mean of the last weights", "best F1 on a fifth of the labels"):
        assert "large_dev" not in kinds(good(dev=scores(sentences=380), selection=selection))
    assert "large_dev" not in kinds(good(dev=scores(sentences=50)))


# -- in a run ------------------------------------------------------------------------------------------------


def test_a_run_records_its_warnings(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    news = make_corpus("news")
    odd = news.with_splits(test=[*news.test, *(Sentence.of(["Nebutol"], [(0, 1, "drug")]),) * 5])
    tiny["train"] |= {"epochs": 1, "lr": 1e-6}
    run = transfer("target_only", odd, out=tmp_path / "r", config=tiny, shots=4, quiet=True, report=False)
    found = {w["kind"]: w for w in run.metrics["warnings"]}
    assert run.metrics["warnings"][0]["kind"] == "unusable"
    assert {"few_updates", "no_labels"} <= set(found)
    assert "drug (5 in dev and test)" in found["no_labels"]["found"]
    assert sum(run.metrics["labelled_mentions"].values()) > 0
    assert set(found["unusable"]) == {"kind", "level", "found", "fix"}


def test_a_run_without_labels_of_its_target(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    target, source = make_corpus("news", seed=1), make_corpus("news")
    run = transfer("source_only", target, [source], out=tmp_path, config=tiny, quiet=True, report=False)
    assert "labelled_mentions" not in run.metrics
    assert not {"no_labels", "never_predicted"} & {w["kind"] for w in run.metrics["warnings"]}


def test_labels_that_were_held_out_count_too(make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    settings = tiny | {"selection": "held_out"}
    run = transfer("target_only", make_corpus("news"), out=tmp_path, config=settings, quiet=True, report=False)
    everything = [span for s in make_corpus("news").train for span in s.spans]
    assert sum(run.metrics["labelled_mentions"].values()) == len(everything)
