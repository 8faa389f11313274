"""Domain-adaptive pre-training: masks, samplers, heads of several families, resuming, stopping, the command."""

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
from nershift.dapt.masked_lm import MaskedEncoder
from nershift.dapt.masking import HIDDEN, REPLACED, Rows, choose, corrupt
from nershift.dapt.pretraining import DaptConfig, dapt, resolve
from nershift.dapt.stage import MaskedSampler, fingerprint
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.encoders.base import make_encoder
from nershift.errors import CheckpointError, ConfigError, Interrupted, SetupError
from nershift.training.processes import Processes

transformers = pytest.importorskip("transformers")
from tiny_encoders import make_encoder_folder  # noqa: E402

MakeCorpus = Callable[..., Corpus]
FAMILIES = ("bert", "distilbert", "roberta", "mpnet")
QUICK: dict[str, Any] = {
    "device": "cpu",
    "max_pieces": 40,
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


def make_feed(folder: str, text: list[Sentence], **settings: Any) -> MaskedSampler:
    given = {"masking": "span", "share": 0.2, "hold_out": 0.1} | settings
    return MaskedSampler(MaskedEncoder(folder, 40), text, 16, 3, **given)  # type: ignore[arg-type]


# -- what is hidden -----------------------------------------------------------------------------------------


def some_rows(words: int = 6000, seed: int = 0) -> Rows:
    rng = np.random.default_rng(seed)
    pieces = rng.integers(1, 4, words)  # of each word
    word = np.repeat(np.arange(words), pieces)
    return Rows(rng.integers(10, 90, len(word)), word, np.repeat(np.arange(words) // 50, pieces))


@pytest.mark.parametrize("masking", ["token", "span"])
@pytest.mark.parametrize("share", [0.15, 0.4])
def test_the_share_that_is_asked_for_is_hidden(masking: Any, share: float) -> None:
    rows = some_rows()
    shares = [choose(rows, masking, share, np.random.default_rng(i))[0].mean() for i in range(8)]
    assert np.mean(shares) == pytest.approx(share, rel=0.06)


def test_spans_hide_whole_words_of_one_row_in_one_way() -> None:
    rows = some_rows()
    chosen, fate = choose(rows, "span", 0.1, np.random.default_rng(1))
    for word in np.unique(rows.words[chosen]):
        inside = rows.words == word
        assert chosen[inside].all()
        assert len(set(fate[inside])) == 1
    hidden = np.unique(rows.words[chosen])
    runs = np.split(hidden, np.flatnonzero(np.diff(hidden) > 1) + 1)
    assert 2.5 < np.mean([len(run) for run in runs]) < 6  # geometric, at most ten words, some merged
    starts = np.flatnonzero(np.diff(rows.rows, prepend=-1))
    at_row_start = chosen[starts].mean()
    assert at_row_start < chosen.mean()  # no span runs over from the row before


def test_what_becomes_of_hidden_pieces() -> None:
    rows = some_rows(20_000)
    rng = np.random.default_rng(2)
    chosen, fate = choose(rows, "token", 0.5, rng)
    seen = corrupt(rows, chosen, fate, 5, np.arange(100, 110), rng)
    assert (seen[~chosen] == rows.pieces[~chosen]).all()
    assert (seen[chosen] == 5).mean() == pytest.approx(HIDDEN, abs=0.02)
    assert (seen[chosen] >= 100).mean() == pytest.approx(REPLACED - HIDDEN, abs=0.02)


def test_nothing_to_hide_in_an_empty_batch() -> None:
    empty = Rows(*(np.empty(0, np.int64) for _ in range(3)))
    for masking in ("token", "span"):
        chosen, _ = choose(empty, masking, 0.2, np.random.default_rng(0))  # type: ignore[arg-type]
        assert len(chosen) == 0


# -- batches ------------------------------------------------------------------------------------------------


def pieces_of(sampler: MaskedSampler, stretch: int) -> list[int]:
    return sampler._rows([stretch]).pieces.tolist()


def test_an_epoch_is_every_stretch_that_is_not_held_out(folder: str, text: list[Sentence]) -> None:
    sampler = make_feed(folder, text)
    read: list[int] = []
    made = sampler._make
    sampler._make = lambda stretches, rng: read.extend(stretches) or made(stretches, rng)  # type: ignore[assignment,func-returns-value]
    for epoch in range(3):
        read.clear()
        for k in range(sampler.per_epoch):
            sampler.batch(epoch * sampler.per_epoch + k)
        assert len(set(read)) == len(read) == sampler.learned
        assert not set(read) & set(sampler.held.tolist())
    assert {*read, *sampler.held.tolist()} == set(range(-(-len(text) // sampler.stretch)))


def test_batches_are_a_function_of_seed_and_number(folder: str, text: list[Sentence]) -> None:
    one, other = make_feed(folder, text), make_feed(folder, text)
    other.batch(0)
    for name, value in one.batch(7).inputs.items():
        assert torch.equal(value, other.batch(7).inputs[name])
    assert not torch.equal(one.batch(0).tags, one.batch(one.per_epoch).tags)  # type: ignore[arg-type]
    first, again = one.held_out(), one.held_out()
    assert all(torch.equal(a.inputs["input_ids"], b.inputs["input_ids"]) for a, b in zip(first, again, strict=True))


def test_rows_hold_the_text_and_targets_are_what_was_hidden(folder: str, text: list[Sentence]) -> None:
    sampler = make_feed(folder, text)
    tokenizer = sampler.encoder.tokenizer
    batch = sampler._make([2, 5], np.random.default_rng(0))
    ids, shown = batch.inputs["input_ids"].clone(), batch.inputs["attention_mask"].bool()
    assert ids.shape[1] <= 40
    ids.view(-1)[batch.inputs["chosen"]] = batch.tags  # type: ignore[assignment]
    ordinary = shown & (ids != tokenizer.cls_token_id) & (ids != tokenizer.sep_token_id)
    expected = pieces_of(sampler, 2) + pieces_of(sampler, 5)
    assert ids[ordinary].tolist() == expected
    assert (ids[:, 0] == tokenizer.cls_token_id).all()
    assert ((ids == tokenizer.sep_token_id).sum(1) == 1).all()
    assert (ids[~shown] == tokenizer.pad_token_id).all()
    plain = tokenizer(
        [list(s.tokens) for s in text[2 * sampler.stretch : 3 * sampler.stretch]],
        is_split_into_words=True,
        add_special_tokens=False,
    )["input_ids"]
    assert pieces_of(sampler, 2) == [i for row in plain for i in row]


def test_processes_share_a_batch_out(folder: str, text: list[Sentence]) -> None:
    sampler = make_feed(folder, text, masking="token")
    whole = len(sampler.batch(1))
    parts = [len(sampler.batch(1, rank, 2)) for rank in (0, 1)]
    assert len(sampler.batch(1)) == whole
    assert sum(parts) in (whole, 2 * whole)


def test_banned_sentences_are_never_seen(folder: str, text: list[Sentence]) -> None:
    banned = {fingerprint(Sentence.of([t.upper() for t in s.tokens])) for s in text[:50]}
    sampler = make_feed(folder, text, banned=banned)
    kept = Counter(s.tokens for s in text if fingerprint(s) not in banned)
    stretches = range(-(-len(text) // sampler.stretch))
    longest = sum(
        len(sampler.encoder.tokenizer(list(t), is_split_into_words=True, add_special_tokens=False)["input_ids"]) * n
        for t, n in kept.items()
    )
    assert sum(len(pieces_of(sampler, i)) for i in stretches) == longest


# -- heads --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", FAMILIES)
def test_encoders_of_all_families_learn_and_come_back(family: str, text: list[Sentence], tmp_path: Path) -> None:
    name = str(make_encoder_folder(family, tmp_path / "encoder"))
    done = dapt(name, [text], out=tmp_path / "out", config=QUICK, quiet=True)
    assert done["new_head"]
    assert done["loss"] < done["loss_before"] - 0.3
    config = build(
        EncoderConfig, {"kind": "transformer", "transformer": {"name": str(tmp_path / "out")}, "chars": {"use": False}}
    )
    encoder = make_encoder(config, text)
    assert encoder.size == 16
    again = MaskedEncoder(str(tmp_path / "out"), 40)
    assert not again.head_is_new
    whole = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out").eval()
    ids = torch.tensor([again.encoder.tokenizer("Ada flew to Leeds")["input_ids"]])
    again.encoder.eval()
    with torch.no_grad():
        states = again.encoder.model(input_ids=ids).last_hidden_state[0]
        ours = again.head(states, again.encoder.model.get_input_embeddings().weight)
        torch.testing.assert_close(ours, whole(input_ids=ids).logits[0], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(encoder.eval().model(input_ids=ids).last_hidden_state[0], states)  # type: ignore[operator]


def test_a_head_that_is_there_goes_on_where_it_was(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    first = dapt(folder, [text], out=tmp_path / "one", config=QUICK, quiet=True)
    second = dapt(str(tmp_path / "one"), [text], out=tmp_path / "two", config=QUICK, quiet=True)
    assert not second["new_head"]
    assert second["loss_before"] == pytest.approx(first["loss"], abs=1e-3)


def test_a_family_without_a_known_head_keeps_its_encoder(
    folder: str, text: list[Sentence], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nershift.dapt.masked_lm._HEADS", ())
    done = dapt(folder, [text], out=tmp_path / "out", config=QUICK, quiet=True)
    assert done["loss"] < done["loss_before"] - 0.3
    assert MaskedEncoder(str(tmp_path / "out"), 40).head_is_new
    moved, before = (transformers.AutoModel.from_pretrained(x).state_dict() for x in (tmp_path / "out", folder))
    assert any(not torch.equal(moved[name], before[name]) for name in before if "attention" in name)


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


def test_it_stops_when_the_loss_no_longer_falls(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    still = {
        "head_lr": 0.0,
        "train": {**QUICK["train"], "lr": 0.0, "weight_decay": 0.0, "epochs": 50, "patience": 2},
    }
    done = dapt(folder, [text], out=tmp_path / "out", config={**QUICK, **still}, quiet=True)
    assert done["steps"] == 3 * QUICK["eval_steps"]
    assert done["loss"] == pytest.approx(done["loss_before"])


def test_dev_and_test_sentences_of_a_target_are_taken_out(folder: str, make_corpus: MakeCorpus, tmp_path: Path) -> None:
    corpus = make_corpus("news", train=60, dev=5, test=5, seed=4)
    text = [*corpus.train, *corpus.dev, *corpus.test]
    banned = {fingerprint(s) for s in (*corpus.dev, *corpus.test)}
    short = {**QUICK, "train": {**QUICK["train"], "max_steps": 2}}
    done = dapt(folder, [text[:30], text[30:]], out=tmp_path / "out", exclude=[corpus], config=short, quiet=True)
    assert done["removed"] == sum(fingerprint(s) in banned for s in text) >= 10
    assert done["sentences"] == 70


def test_wrong_settings_are_messages(folder: str, text: list[Sentence], tmp_path: Path) -> None:
    for name, value in (
        ("share", 0.0),
        ("share", 1.0),
        ("hold_out", 0.6),
        ("eval_steps", 0),
        ("max_pieces", 2),
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
        "max_pieces=40",
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
