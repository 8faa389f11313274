"""A folder with everything that the documents' commands name, and training cut to a few steps."""

from __future__ import annotations

import gzip
import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from documented import ROOT, Command

import nershift
from nershift.cli import main
from nershift.config import merge
from nershift.data import builtin
from nershift.data.corpus import Corpus
from nershift.data.formats import write_corpus
from nershift.data.formats.conll import write as write_conll
from nershift.data.spans import Sentence
from tiny_encoders import make_encoder_folder

_SMALL_ENCODER = {
    "words": {"size": 8},
    "chars": {"size": 4, "filters": 6, "widths": [2, 3], "max_length": 10},
    "recurrent": {"size": 8},
}
_FEW = {"updates": 4, "batch_size": 8, "average_last": 0.0}
SMALL: dict[str, Any] = {"device": "cpu", "encoder": _SMALL_ENCODER, "pretrain": _FEW, "train": _FEW}
_CATALOG = (
    "conll2003_en", "conll2002_es", "conll2002_nl", "wikigold", "wnut2017", "mit_restaurant", "bionlp13cg",
    "cbs_scitech", "crossner_ai", "crossner_politics", "crossner_science", "crossner_music", "crossner_literature",
)  # fmt: skip
_ENCODERS = (
    "ENCODER", "all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "bert-base-multilingual-cased",
    "multilingual",
)  # fmt: skip
_CLINICS = ("clinic", "T", "CORPUS", "TARGET", "corpora/clinic", "contracts", "NOTES", "notes")
_STAND_FOR = {"N": "16", "TEXT": "news.txt"}
# What a command needs in addition so that it is quick; what training takes is cut elsewhere.
_QUICKER = {
    "distil": ("--set", "train.updates=4", "--set", "train.batch_size=8"),
    "fit": ("--plan",),  # the whole of it is tested in tests/auto
    "curve": ("--sizes", "8,16", "--seeds", "1"),
    "dapt": ("--set", "train.updates=2", "--set", "train.batch_size=4"),
}


def _toy(name: str, make_corpus: Callable[..., Corpus]) -> Corpus:
    """A corpus under a name of the catalog, with types of four kinds as CoNLL has them."""
    types = {"person": "PER", "place": "LOC", "drug": "MISC"}
    made = make_corpus("news", train=30, dev=8, test=8, seed=len(name))

    def renamed(sentence: Sentence) -> Sentence:
        return Sentence.of(sentence.tokens, [(s.start, s.end, types[s.label]) for s in sentence.spans])

    splits = {split: tuple(map(renamed, sentences)) for split, sentences in made.splits.items()}
    return Corpus(name, {"test": splits["test"]} if name == "cbs_scitech" else splits, domain=name)


def fill(folder: Path, make_corpus: Callable[..., Corpus]) -> None:
    """Everything that a page may name; call it with reduced training."""
    news, clinic = (make_corpus(domain, train=30, dev=8, test=8) for domain in ("news", "clinic"))
    for name, corpus in (*((name, clinic) for name in _CLINICS), *((name, news) for name in ("news", "wiki", "NEWS"))):
        write_corpus(folder / name, corpus)
    write_conll(folder / "test.conll", clinic.splits["test"])
    write_conll(folder / "train.conll", clinic.train)
    nershift.write_corpus(folder / "jsonl", clinic, "jsonl")
    shutil.copy(next((folder / "jsonl").glob("test*")), folder / "more.jsonl")
    text = "".join(f"{' '.join(sentence.tokens)}\n" for sentence in make_corpus("news", train=300).train)
    for name in ("notes.txt", "text.txt", "news.txt", "science.txt", "contracts.txt", "spanish.txt"):
        (folder / name).write_text(text, encoding="utf-8")
    for name in ("raw_reuters21578", "raw_abc_science"):
        (folder / name).mkdir()
        with gzip.open(folder / name / "raw.txt.gz", "wt", encoding="utf-8") as file:
            file.write(text)
    for name in _CATALOG:
        for split, sentences in _toy(name, make_corpus).splits.items():
            write_conll(folder / "catalog" / name / f"{split}.conll.gz", sentences)
    write_conll(folder / "spanish" / "test.conll", _toy("spanish", make_corpus).splits["test"])
    lines = [" ".join(sentence.tokens) for sentence in (*news.train, *clinic.train)]
    for name in _ENCODERS:
        make_encoder_folder("bert", folder / "encoders" / name, text=lines)
    words = sorted({word.lower() for line in lines for word in line.split()})
    (folder / "vectors").mkdir()
    with gzip.open(folder / "vectors" / "multilingual.100d.txt.gz", "wt", encoding="utf-8") as file:
        file.writelines(f"{word} {' '.join(['0.1'] * 8)}\n" for word in words)
    (folder / "examples").symlink_to(ROOT / "examples")
    encoder = {"encoder": {"kind": "transformer", "transformer": {"name": str(folder / "encoders/ENCODER")}}}
    nershift.transfer("target_only", clinic, out=folder / "RUN", config=encoder, quiet=True, report=False)
    nershift.transfer("target_only", clinic, out=folder / "RUN_1", quiet=True, report=False)
    for name in (
        "RUN_2",
        "RUN_3",
        *(f"runs/{run}" for run in ("clinic", "tickets", "finetune", "large", "a", "b", "c")),
    ):
        shutil.copytree(folder / "RUN_1", folder / name)
    nershift.pretrain("finetune", [news], out=folder / "PRETRAINED", config=encoder, quiet=True)


def reduce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train for four updates, on at most 16 labels, with small layers; the built-in corpus has few sentences."""
    from nershift import distillation, run
    from nershift.auto import fit
    from nershift.labelling import curve

    def small(train: Callable[..., Any]) -> Callable[..., Any]:
        def reduced(*arguments: Any, config: Any = None, **options: Any) -> Any:
            if options.get("shots"):
                options["shots"] = min(options["shots"], 16)
            out = Path(options["out"])
            if (out / "metrics.json").exists() or (out / "config.yaml").exists():
                shutil.rmtree(out)
            return train(*arguments, config=merge(config or {}, SMALL), **options)

        return reduced

    for module in (run, curve):
        for name in ("transfer", "pretrain", "adapt"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, small(getattr(module, name)))
    whole_fit, whole_distil = fit.fit, distillation.distil
    quick = {"minutes": 0.3, "one_model": True}
    monkeypatch.setattr(fit, "fit", lambda *given, **more: whole_fit(*given, **{**more, **quick}))
    few = {"train": {"updates": 4, "batch_size": 8}}
    monkeypatch.setattr(
        distillation,
        "distil",
        lambda *given, **more: whole_distil(*given, **{**more, "config": merge(more.get("config") or {}, few)}),
    )
    monkeypatch.setattr(builtin, "SIZES", {"train": 40, "dev": 12, "test": 20})


def run_ours(command: Command, monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of one of our commands, in this process."""
    words = list(command.words[1:])
    words = [_STAND_FOR.get(word, word) for word in words]
    if words[0] == "export":  # the pages name one folder for all kinds of export
        shutil.rmtree(words[words.index("--out") + 1], ignore_errors=True)
    monkeypatch.setattr(sys, "argv", ["nershift", *words, *_QUICKER.get(words[0], ())])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(command.stdin.encode())))
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code if isinstance(ended.value.code, int) else int(bool(ended.value.code))
