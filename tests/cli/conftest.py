"""The command line in this process, small corpora as files and a run trained on one of them."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from nershift.cli import main
from nershift.data.corpus import Corpus
from nershift.data.formats import write_corpus

MakeCorpus = Callable[..., Corpus]


class Outcome:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


Cli = Callable[..., Outcome]


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `nershift` with these arguments; nothing it does may end in a traceback."""

    def call(*arguments: object, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["nershift", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        monkeypatch.setenv("COLUMNS", "200")
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Outcome(code, out, err)

    return call


@pytest.fixture(scope="module")
def files(make_corpus: MakeCorpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    write_corpus(folder / "news", make_corpus("news"), "conll")
    write_corpus(folder / "clinic", make_corpus("clinic"), "conll")
    settings = {
        "device": "cpu",
        "encoder": {
            "words": {"size": 12},
            "chars": {"filters": 8},
            "recurrent": {"size": 10},
            "dropout": 0.1,
        },
        "train": {"epochs": 8, "batch_size": 8, "lr": 0.02},
        "pretrain": {"epochs": 2, "batch_size": 8, "lr": 0.02},
    }
    (folder / "c.yaml").write_text(yaml.safe_dump(settings))
    return folder


@pytest.fixture(scope="module")
def trained(files: Path) -> Path:
    from nershift.cli import options
    from nershift.run import transfer

    out = files / "trained"
    transfer(
        "target_only",
        options.corpus(str(files / "news")),
        out=out,
        config=options.settings(files / "c.yaml", []),
        quiet=True,
    )
    return out
