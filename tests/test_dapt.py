"""Domain-adaptive pre-training: masks, batches, heads of several architectures, resuming, stopping, the command."""

from __future__ import annotations

import io
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from nershift.cli import main
from nershift.config import EncoderConfig, build
from nershift.dapt.config import DaptConfig, resolve
from nershift.dapt.masked_lm import MaskedLM
from nershift.dapt.masking import MASKED, REPLACED, Rows, choose, corrupt
from nershift.dapt.pretraining import dapt
from nershift.dapt.stage import MaskedSampler, fingerprint
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.encoders.transformer import load_pretrained
from nershift.errors import CheckpointError, ConfigError, Interrupted, SetupError
from nershift.manifest import MANIFEST
from nershift.training.processes import Processes

transformers = pytest.importorskip("transformers")
from tiny_encoders import make_encoder_folder  # noqa: E402

MakeCorpus = Callable[..., Corpus]
FAMILIES = ("bert", "distilbert", "roberta", "mpnet", "electra")
QUICK: dict[str, Any] = {
    "device": "cpu",
    "max_subwords": 40,
    "head_lr": 0.01,
    "eval_steps": 5,
    "train": {"epochs": 4, "batch_size": 16, "lr": 0.005, "warmup": 0.0},
}


@pytest.fixture(scope="module")
def text(make_corpus: MakeCorpus) -> list[Sentence]:
    return [s.with_spans(()) for s in make_corpus("news", train=120).train]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(make_encoder_folder("bert", tmp_path_factory.mktemp("encoder") / "bert"))


def make_sampler(folder: str, text: list[Sentence], excluded: Any = (), masking: str = "span") -> MaskedSampler:
    settings = {"seed": 3, "masking": masking, "share": 0.2, "hold_out": 0.1, "train": {"batch_size": 16}}
    return MaskedSampler(MaskedLM(folder, 40), text, resolve(settings), excluded)


# -- what is masked -----------------------------------------------------------------------------------------


def some_rows(words: int = 6000, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 4, words)  # of each word
    word = np.repeat(np.arange(words), lengths)
    return Rows(rng.integers(10, 90, len(word)), word, np.repeat(np.arange(words) // 50, lengths))


@pytest.mark.parametrize("masking", ["token", "span"])
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_given_share_is_masked(masking: Any, share: float) -> None:
    rows = some_rows()
    shares = [choose(rows, masking, share, np.random.default_rng(i))[0].mean() for i in range(8)]
    assert np.mean(shares) == pytest.approx(share, rel=0.06)


def test_spans_mask_whole_words_of_one_row_in_one_way() -> None:
    rows = some_rows()
    chosen, draws = choose(rows, "span", 0.1, np.random.default_rng(1))
    for word in np.unique(rows.words[chosen]):
        inside = rows.words == word
        assert chosen[inside].all()
        assert len(set(draws[inside])) == 1
    masked = np.unique(rows.words[chosen])
    runs = np.split(masked, np.flatnonzero(np.diff(masked) > 1) + 1)
    assert 2.5 < np.mean([len(run) for run in runs]) < 6  # geometric, at most ten words, some merged
    starts = np.flatnonzero(np.diff(rows.rows, prepend=-1))
    at_row_start = chosen[starts].mean()
    assert at_row_start < chosen.mean()  # no span runs over from the row before


def test_how_masked_subwords_are_shown() -> None:
    rows = some_rows(20_000)
    rng = np.random.default_rng(2)
    chosen, draws = choose(rows, "token", 0.5, rng)
    shown = corrupt(rows, chosen, draws, 5, np.arange(100, 110), rng)
    assert (shown[~chosen] == rows.subwords[~chosen]).all()
    assert (shown[chosen] == 5).mean() == pytest.approx(MASKED, abs=0.02)
    assert (shown[chosen] >= 100).mean() == pytest.approx(REPLACED - MASKED, abs=0.02)


def test_nothing_to_mask_in_an_empty_batch() -> None:
    empty = Rows(*(np.empty(0, np.int64) for _ in range(3)))
    for masking in ("token", "span"):
        chosen, _ = choose(empty, masking, 0.2, np.random.default_rng(0))  # type: ignore[arg-type]
        assert len(chosen) == 0


# -- batches ------------------------------------------------------------------------------------------------


def subwords_of(sampler: MaskedSampler, block: int) -> list[int]:
    return sampler._rows([block]).subwords.tolist()


def test_an_epoch_is_every_block_that_is_not_held_out(folder: str, text: list[Sentence]) -> None:
    sampler = make_sampler(folder, text)
    read: list[int] = []
    make = sampler._make
    sampler._make = lambda blocks, rng: read.extend(blocks) or make(blocks, rng)  # type: ignore[assignment,func-returns-value]
    for epoch in range(3):
        read.clear()
        for k in range(sampler.per_epoch):
            sampler.batch(epoch * sampler.per_epoch + k)
        assert len(set(read)) == len(read) == sampler.learned
        assert not set(read) & set(sampler.held.tolist())
    assert {*read, *sampler.held.tolist()} == set(range(-(-len(text) // sampler.block)))


def test_batches_are_a_function_of_seed_and_number(folder: str, text: list[Sentence]) -> None:
    one, other = make_sampler(folder, text), make_sampler(folder, text)
    other.batch(0)
    for name, value in one.batch(7).inputs.items():
        assert torch.equal(value, other.batch(7).inputs[name])
    assert not torch.equal(one.batch(0).inputs["labels"], one.batch(one.per_epoch).inputs["labels"])
    first, again = one.held_out(), one.held_out()
    assert all(torch.equal(a.inputs["input_ids"], b.inputs["input_ids"]) for a, b in zip(first, again, strict=True))


def test_rows_hold_the_text_and_labels_are_what_was_masked(folder: str, text: list[Sentence]) -> None:
    sampler = make_sampler(folder, text)
    tokenizer = sampler.encoder.tokenizer
    batch = sampler._make([2, 5], np.random.default_rng(0))
    ids, shown = batch.inputs["input_ids"].clone(), batch.inputs["attention_mask"].bool()
    assert ids.shape[1] <= 40
    ids.view(-1)[batch.inputs["masked"]] = batch.inputs["labels"]
    ordinary = shown & (ids != tokenizer.cls_token_id) & (ids != tokenizer.sep_token_id)
    expected = subwords_of(sampler, 2) + subwords_of(sampler, 5)
    assert ids[ordinary].tolist() == expected
    assert (ids[:, 0] == tokenizer.cls_token_id).all()
    assert ((ids == tokenizer.sep_token_id).sum(1) == 1).all()
    assert (ids[~shown] == tokenizer.pad_token_id).all()
    plain = tokenizer(
        [list(s.tokens) for s in text[2 * sampler.block : 3 * sampler.block]],
        is_split_into_words=True,
        add_special_tokens=False,
    )["input_ids"]
    assert subwords_of(sampler, 2) == [i for row in plain for i in row]


def test_processes_share_a_batch_out(folder: str, text: list[Sentence]) -> None:
    sampler = make_sampler(folder, text, masking="token")
    whole = len(sampler.batch(1))
    parts = [len(sampler.batch(1, rank, 2)) for rank in (0, 1)]
    assert len(sampler.batch(1)) == whole
    assert sum(parts) in (whole, 2 * whole)


def test_excluded_sentences_are_never_seen(folder: str, text: list[Sentence]) -> None:
    excluded = {fingerprint(Sentence.of([t.upper() for t in s.tokens])) for s in text[:50]}
    sampler = make_sampler(folder, text, excluded)
    kept = Counter(s.tokens for s in text if fingerprint(s) not in excluded)
    blocks = range(-(-len(text) // sampler.block))
    longest = sum(
        len(sampler.encoder.tokenizer(list(t), is_split_into_words=True, add_special_tokens=False)["input_ids"]) * n
        for t, n in kept.items()
    )
    assert sum(len(subwords_of(sampler, i)) for i in blocks) == longest


# -- heads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders_of_all_architectures_learn_and_come_back(family: str, text: list[Sentence], tmp_path: Path) -> None:
    name = str(make_encoder_folder(family, tmp_path / "encoder"))
    metrics = dapt(name, [text], out=tmp_path / "out", config=QUICK, quiet=True)
    assert metrics["new_head"]
    assert metrics["loss"] < metrics["loss_before"] - 0.3
    config = build(
        EncoderConfig, {"kind": "transformer", "transformer": {"name": str(tmp_path / "out")}, "chars": {"use": False}}
    )
    encoder = make_encoder(config, text)
    assert encoder.size == 16
    again = MaskedLM(str(tmp_path / "out"), 40)
    assert not again.head_is_new
    whole = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.tensor([again.encoder.tokenizer("Ada flew to Leeds")["input_ids"]])
    again.encoder.eval()
    with torch.no_grad():
        expected = whole(input_ids=ids, output_hidden_states=True)
        logits = again.logits(ids, torch.ones_like(ids), torch.tensor([2, 0]))
        torch.testing.assert_close(logits, expected.logits[0, [2, 0]], rtol=1e-4, atol=1e-4)
        states = encoder.eval().model(input_ids=ids).last_hidden_state  # type: ignore[operator]
        torch.testing.assert_close(states, expected.hidden_states[-1])


def test_a_head_that_is_there_goes_on_where_it_was(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    first = dapt(folder, [text], out=tmp_path / "one", config=QUICK, quiet=True)
    second = dapt(str(tmp_path / "one"), [text], out=tmp_path / "two", config=QUICK, quiet=True)
    assert not second["new_head"]
    assert second["loss_before"] == pytest.approx(first["loss"], abs=1e-3)


def test_an_architecture_without_a_masked_lm_is_refused(
    folder: str, text: list[Sentence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: Any, **__: Any) -> None:
        raise ValueError("Unrecognized configuration class for this kind of AutoModel")

    monkeypatch.setattr(transformers.AutoModelForMaskedLM, "from_pretrained", unknown)
    with pytest.raises(ConfigError, match="no masked language model"):
        dapt(folder, [text], out=tmp_path / "out", config=QUICK, quiet=True)


def test_an_encoder_without_a_mask_is_refused(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    bad = make_encoder_folder("bert", tmp_path / "bad")
    settings = json.loads((bad / "tokenizer_config.json").read_text())
    settings.pop("mask_token")
    (bad / "tokenizer_config.json").write_text(json.dumps(settings))
    (bad / "special_tokens_map.json").unlink(missing_ok=True)
    with pytest.raises(ConfigError, match="no mask token"):
        dapt(str(bad), [text], out=tmp_path / "out", config=QUICK, quiet=True)


# -- runs ---------------------------------------------------------------------------------------------------


def test_a_resumed_run_ends_where_an_uninterrupted_one_does(
    folder: str, text: list[Sentence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dapt(folder, [text], out=tmp_path / "whole", config=QUICK, quiet=True)
    asked = iter([False] * 7)
    with monkeypatch.context() as patch:
        patch.setattr(Processes, "stop_asked", lambda self: next(asked, True))
        with pytest.raises(Interrupted):
            dapt(folder, [text], out=tmp_path / "cut", config=QUICK, quiet=True)
    resumed = dapt(folder, [text], out=tmp_path / "cut", config=QUICK, quiet=True)
    assert {k: v for k, v in resumed.items() if k != "seconds"} == {k: v for k, v in whole.items() if k != "seconds"}
    files = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "cut")]
    assert files[0] == files[1]
    logs = [(tmp_path / run / "log.jsonl").read_text() for run in ("whole", "cut")]
    assert logs[0] == logs[1]
    assert "held_out_loss" in json.loads(logs[0].split("\n")[0])
    with pytest.raises(CheckpointError, match="other settings"):
        dapt(folder, [text], out=tmp_path / "cut", config=QUICK, seed=2, quiet=True)
    assert dapt(folder, [text], out=tmp_path / "cut", config=QUICK, quiet=True) == resumed  # nothing left to do
    for name in ("metrics.json", "model.safetensors"):
        whole = (tmp_path / "cut" / name).read_bytes()
        (tmp_path / "cut" / name).write_bytes(whole[:20])
        with pytest.raises(CheckpointError, match="finished, but damaged"):
            dapt(folder, [text], out=tmp_path / "cut", config=QUICK, quiet=True)
        (tmp_path / "cut" / name).write_bytes(whole)


def test_an_encoder_that_was_damaged_is_not_used(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    short = {**QUICK, "train": {**QUICK["train"], "max_steps": 2}}
    dapt(folder, [text], out=tmp_path / "out", config=short, quiet=True)
    listed = json.loads((tmp_path / "out" / MANIFEST).read_text())["files"]
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(listed)
    load_pretrained(str(tmp_path / "out"))
    weights = tmp_path / "out" / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-4] + bytes([data[-4] ^ 1]) + data[-3:])
    with pytest.raises(CheckpointError, match=r"model\.safetensors: is not as it was written"):
        load_pretrained(str(tmp_path / "out"))


def test_it_stops_when_the_loss_no_longer_falls(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    still = {
        "head_lr": 0.0,
        "train": {**QUICK["train"], "lr": 0.0, "weight_decay": 0.0, "epochs": 50, "patience": 2},
    }
    metrics = dapt(folder, [text], out=tmp_path / "out", config={**QUICK, **still}, quiet=True)
    assert metrics["steps"] == 3 * QUICK["eval_steps"]
    assert metrics["loss"] == pytest.approx(metrics["loss_before"])


def test_dev_and_test_sentences_of_a_target_are_taken_out(folder: str, make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus("news", train=60, dev=5, test=5, seed=4)
    text = [*corpus.train, *corpus.dev, *corpus.test]
    excluded = {fingerprint(s) for s in (*corpus.dev, *corpus.test)}
    short = {**QUICK, "train": {**QUICK["train"], "max_steps": 2}}
    metrics = dapt(folder, [text[:30], text[30:]], out=tmp_path / "out", exclude=[corpus], config=short, quiet=True)
    assert metrics["removed"] == sum(fingerprint(s) in excluded for s in text) >= 10
    assert metrics["sentences"] == 70


def test_wrong_settings_are_messages(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    for name, value in (
        ("share", 0.0),
        ("share", 1.0),
        ("hold_out", 0.6),
        ("eval_steps", 0),
        ("max_subwords", 2),
    ):
        with pytest.raises(ConfigError, match=name):
            resolve({name: value})
    with pytest.raises(ConfigError, match="only taggers are averaged"):
        resolve({"train": {"model_soup": 2}})
    with pytest.raises(ConfigError, match="did you mean 'masking'"):
        resolve({"maskin": "span"})
    assert resolve({"train": {"epochs": 2}}).train.optimizer == "adamw"
    assert resolve() == DaptConfig()
    with pytest.raises(SetupError, match="too few"):
        dapt(folder, [text[:1]], out=tmp_path / "out", config=QUICK, quiet=True)


def test_the_command(
    folder: str, text: list[Sentence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    raw = tmp_path / "raw.txt"
    raw.write_text("\n".join(" ".join(s.tokens) for s in text) + "\n", encoding="utf-8")

    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["nershift", "dapt", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.StringIO())
        monkeypatch.setenv("COLUMNS", "200")
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        return code, *capsys.readouterr()

    sets = [
        "--set",
        "device=cpu",
        "--set",
        "max_subwords=40",
        "--set",
        "train.max_steps=3",
        "--set",
        "masking=token",
    ]
    code, out, err = call("--encoder", folder, "--raw", raw, "--out", tmp_path / "out", "--quiet", *sets)
    assert code == 0, err
    assert "encoder.transformer.name" in out
    assert (tmp_path / "out" / "config.json").exists()
    code, _, err = call("--encoder", folder, "--raw", tmp_path / "none.txt", "--out", tmp_path / "x", *sets)
    assert code == 1
    assert "no such file" in err
    code, _, err = call("--encoder", tmp_path / "no", "--raw", raw, "--out", tmp_path / "y", *sets)
    assert code == 1
    assert "Traceback" not in err
