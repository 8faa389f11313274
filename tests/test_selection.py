"""What selects the weights: with few labels, nothing that the labels do not contain."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.errors import SetupError
from nershift.run import Request, resolve, transfer

MakeCorpus = Callable[..., Corpus]


@pytest.fixture
def news(make_corpus: MakeCorpus) -> Corpus:
    return make_corpus("news")


def _selected(run_folder: Path) -> str:
    return str(yaml.safe_load((run_folder / "config.yaml").read_text())["selection"])


def test_a_dev_split_selects_only_where_all_labels_are_used(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    whole = transfer("target_only", news, out=tmp_path / "whole", config=tiny, quiet=True)
    few = transfer("target_only", news, out=tmp_path / "few", shots=10, config=tiny, quiet=True)
    assert (_selected(whole.folder), whole.metrics["selection"]) == ("dev", "best dev F1")
    assert (_selected(few.folder), few.metrics["selection"]) == ("last", "last")
    assert few.metrics["dev"]["f1"] >= 0  # scored all the same
    assert few.metrics["phases"]["train"]["dev_f1"] is None


def test_with_few_labels_nothing_depends_on_the_dev_split(
    news: Corpus, make_corpus: MakeCorpus, tiny: dict[str, Any], tmp_path: Path
) -> None:
    other = news.with_splits(dev=make_corpus("news", seed=9).dev)
    folders = [
        transfer("target_only", c, out=tmp_path / name, shots=10, config=tiny, quiet=True).folder
        for name, c in (("a", news), ("b", other))
    ]
    for file in ("model.safetensors", "predictions.jsonl"):
        assert (folders[0] / file).read_bytes() == (folders[1] / file).read_bytes()


def test_a_fifth_of_the_labels_can_select(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    config = tiny | {"selection": "held_out"}
    request = Request("target_only", resolve("target_only", config), (), news, shots=10)
    assert [len(request.setup.target.splits[name]) for name in ("train", "dev")] == [8, 2]  # type: ignore[union-attr]
    run = transfer("target_only", news, out=tmp_path / "r", shots=10, config=config, quiet=True)
    assert run.metrics["labelled"] == 10
    assert run.metrics["selection"] == "best F1 on a fifth of the labels"
    assert run.metrics["phases"]["train"]["dev_f1"] is not None


def test_dev_is_kept_for_those_who_ask(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    run = transfer("target_only", news, out=tmp_path / "r", shots=10, config=tiny | {"selection": "dev"}, quiet=True)
    assert run.metrics["selection"] == "best dev F1"
    lacking = Corpus("news", {"train": news.train, "test": news.test})
    with pytest.raises(SetupError, match="no dev split to select on"):
        transfer("target_only", lacking, out=tmp_path / "x", config=tiny | {"selection": "dev"}, quiet=True)


def test_the_mean_of_the_last_weights_is_told(news: Corpus, tiny: dict[str, Any], tmp_path: Path) -> None:
    config = merge(tiny, {"train": {"average_last": 0.5}})
    run = transfer("target_only", news, out=tmp_path / "r", shots=10, config=config, quiet=True)
    assert run.metrics["selection"] == "mean of the last weights"


def test_batches_follow_the_amount_of_data_and_are_written_down(news: Corpus, tiny: dict[str, Any]) -> None:
    config = resolve("finetune", merge(tiny, {"train": {"batch_size": 0}, "pretrain": {"batch_size": 0}}))
    written = Request("finetune", config, [news] * 3, news, shots=10).identity()
    assert (written["train"]["batch_size"], written["pretrain"]["batch_size"]) == (4, 4)


def test_a_length_that_the_user_gives_replaces_that_of_the_preset() -> None:
    by_updates = resolve("target_only", {"preset": "crosslm", "train": {"updates": 70}}).train
    assert (by_updates.updates, by_updates.epochs) == (70, 0)
    by_epochs = resolve("finetune", {"pretrain": {"epochs": 3}}).pretrain
    assert (by_epochs.updates, by_epochs.epochs) == (0, 3)


def test_the_default_preset_depends_on_the_encoder() -> None:
    plain = resolve("target_only").train
    tuned = resolve("target_only", {"encoder": {"kind": "transformer", "transformer": {"name": "x"}}}).train
    assert plain.encoder_lr is None
    assert tuned.encoder_lr is not None
    assert tuned.encoder_lr < tuned.lr < plain.lr


def test_a_transformer_does_not_learn_from_sources_for_as_long_as_a_small_encoder() -> None:
    """It had 30 epochs of them, 25 minutes on a CPU."""
    plain, tuned = (
        resolve("finetune", settings).pretrain
        for settings in ({}, {"encoder": {"kind": "transformer", "transformer": {"name": "x"}}})
    )
    assert (plain.epochs, tuned.epochs) == (0, 0)
    assert 0 < 2 * tuned.updates < plain.updates


def test_patience_in_epochs_does_not_become_patience_in_updates() -> None:
    length = {"train": {"updates": 2000}}
    assert resolve("laner", {"preset": "paper"} | length).train.patience == 0
    assert resolve("laner", {"preset": "paper"}).train.patience == 16
    assert resolve("laner", {"preset": "paper", "train": {"updates": 2000, "patience": 300}}).train.patience == 300


def test_one_stage_gets_the_updates_of_two() -> None:
    transformer = {"encoder": {"kind": "transformer", "transformer": {"name": "x"}}}
    for settings in ({}, transformer):
        two, one = resolve("finetune", settings), resolve("multitask", settings)
        assert one.train.min_updates == two.pretrain.updates + two.train.min_updates


def test_a_pool_of_all_sentences_has_batches_for_all_of_them(make_corpus: MakeCorpus, tiny: dict[str, Any]) -> None:
    many, settings = make_corpus("clinic", train=300), merge(tiny, {"train": {"batch_size": 0}})
    sizes = {
        method: Request(method, resolve(method, settings), [many], make_corpus("news"), shots=10).identity()["train"]
        for method in ("aggregate", "finetune")
    }
    assert (sizes["aggregate"]["batch_size"], sizes["finetune"]["batch_size"]) == (8, 4)
