"""Parts from another package, found by its entry points: one file each, and no line of their names in ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from nershift.data.corpus import Corpus
from nershift.data.formats import write_corpus

BRACKETS = '''
"""One sentence per line, entities in brackets after their type: `we saw <person Ada> .`"""

import re

from nershift.data.formats import Format
from nershift.data.spans import Sentence


def read(path, problems):
    sentences = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        tokens, spans = [], []
        for label, words, word in re.findall(r"<(\\S+) ([^>]*)>|(\\S+)", line):
            start = len(tokens)
            tokens += words.split() or [word]
            if label:
                spans.append((start, len(tokens), label))
        sentences.append(Sentence.of(tokens, spans, place=f"{path}:{number}"))
    return sentences


def write(path, sentences):
    lines = []
    for sentence in sentences:
        words = list(sentence.tokens)
        for span in reversed(sentence.spans):
            words[span.start : span.end] = [f"<{span.label} {' '.join(words[span.start : span.end])}>"]
        lines.append(" ".join(words) + "\\n")
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text("".join(lines))


def matches(path, head):
    return 0.9 if re.search(r"<\\w+ \\w", head) else 0.0


FORMAT = Format((".brackets",), read, write, matches)
'''
HASHED = '''
"""An encoder with a vector for each of 512 buckets of words, and no context."""

import zlib

import torch
from torch import nn

from nershift.encoders.base import Encoder, register


@register("hashed")
class HashedEncoder(Encoder):
    def __init__(self, config):
        super().__init__()
        self.config, self.size = config, config.options.get("size", 8)
        self.table = nn.Embedding(512, self.size)

    @classmethod
    def new(cls, config, words):
        return cls(config)

    @classmethod
    def rebuild(cls, config, description, folder):
        return cls(config)

    def prepare(self, tokens):
        return [zlib.crc32(token.encode()) % 512 for token in tokens]

    def collate(self, items):
        longest = max(map(len, items))
        buckets = torch.tensor([[*item, *[0] * (longest - len(item))] for item in items])
        lengths = torch.tensor([len(item) for item in items])
        return {"buckets": buckets, "mask": torch.arange(longest) < lengths[:, None]}

    def forward(self, buckets, mask):
        return self.table(buckets) * mask[..., None]
'''
WORDS = '''
"""Every token is an entity of the first type, or none is: a head with one weight."""

import numpy as np
import torch
from torch import nn

from nershift.data.spans import Span
from nershift.heads.base import Head, register


@register("coin")
class Coin(Head):
    def __init__(self, types, size):
        super().__init__(types)
        self.weight = nn.Parameter(torch.zeros(size))

    @classmethod
    def new(cls, space, size, settings):
        return cls(space.types, size)

    def targets(self, sentence):
        inside = np.zeros(len(sentence), dtype=np.float32)
        for span in sentence.spans:
            inside[span.start : span.end] = 1
        return inside

    def loss(self, states, mask, targets):
        chances = nn.functional.binary_cross_entropy_with_logits(states @ self.weight, targets, reduction="none")
        return chances.masked_fill(~mask, 0).sum(1)

    def predict(self, states, mask):
        hits = (states @ self.weight > 0) & mask
        return [[Span(i, i + 1, self.types[0]) for i in row.nonzero()[:, 0].tolist()] for row in hits]

    def confidences(self, states, mask, spans):
        chances = torch.sigmoid(states @ self.weight / self.temperature)
        return [[float(row[span.start]) for span in mine] for row, mine in zip(chances, spans, strict=True)]
'''
CALLS = """
import json, sys
from nershift.cli import app
for call in json.load(sys.stdin):
    app(args=call, standalone_mode=False)
"""


@pytest.fixture
def package(tmp_path: Path) -> Callable[..., Path]:
    """``package("name", source, group="part = name:VALUE")``: an installed package with entry points."""

    def make(name: str, source: str, **points: str) -> Path:
        folder = tmp_path / "site"
        info = folder / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (folder / f"{name}.py").write_text(source)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        groups = "".join(f"[nershift.{group}]\n{point}\n" for group, point in points.items())
        (info / "entry_points.txt").write_text(groups)
        return folder

    return make


def nershift(site: Path, *calls: list[object]) -> str:
    """Run command lines in a process of their own that has the package."""
    paths = [str(site), *sys.path]
    done = subprocess.run(
        [sys.executable, "-c", CALLS],
        input=json.dumps([[str(word) for word in call] for call in calls]),
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_format(
    make_corpus: Callable[..., Corpus], tiny: dict[str, Any], package: Callable[..., Path], tmp_path: Path
) -> None:
    corpus = make_corpus("news", 12, 4, 4)
    write_corpus(tmp_path / "in", corpus)
    tiny["train"]["epochs"] = 1
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny))
    (tmp_path / "vague.txt").write_text("we saw <person Ada> .\n")
    out = nershift(
        package("brackets", BRACKETS, formats="brackets = brackets:FORMAT"),
        ["convert", tmp_path / "in", tmp_path / "bracketed", "--to", "brackets"],
        ["convert", tmp_path / "bracketed", tmp_path / "back", "--to", "conll"],
        ["convert", tmp_path / "vague.txt", tmp_path / "vague.conll"],
        ["transfer", "--target", tmp_path / "bracketed", "--out", tmp_path / "run", "--config", tmp_path / "tiny.yaml",
         "--quiet"],
    )  # fmt: skip
    assert "<person" in (tmp_path / "bracketed" / "train.brackets").read_text()
    before, after = (tmp_path / name / "train.conll" for name in ("in", "back"))
    assert after.read_text() == before.read_text()
    assert (tmp_path / "vague.conll").read_text() == "we\tO\nsaw\tO\nAda\tB-person\n.\tO\n\n"
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["labelled"] == 12
    assert "F1" in out


def test_an_encoder(make_corpus: Callable[..., Corpus], package: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("news", "clinic"):
        write_corpus(tmp_path / name, make_corpus(name))
    stage = {"lr": 0.05, "batch_size": 8, "epochs": 8}
    settings = {"device": "cpu", "encoder": {"kind": "hashed", "options": {"size": 12}}, "train": stage}
    (tmp_path / "hashed.yaml").write_text(yaml.safe_dump(settings | {"pretrain": stage}))
    (tmp_path / "note.txt").write_text("pt Okafor given 20mg zolpirex in Leeds\n")
    out = nershift(
        package("hashed", HASHED, encoders="hashed = hashed:HashedEncoder"),
        ["transfer", "--method", "finetune", "--source", tmp_path / "news", "--target", tmp_path / "clinic",
         "--out", tmp_path / "run", "--config", tmp_path / "hashed.yaml", "--quiet"],
        ["predict", "--model", tmp_path / "run", tmp_path / "note.txt"],
    )  # fmt: skip
    described = json.loads((tmp_path / "run" / "model.json").read_text())["encoder"]
    assert (described["kind"], described["config"]["options"]) == ("hashed", {"size": 12})
    assert json.loads((tmp_path / "run" / "metrics.json").read_text())["test"]["f1"] > 0.5
    assert "zolpirex" in out


def test_a_head(
    make_corpus: Callable[..., Corpus], tiny: dict[str, Any], package: Callable[..., Path], tmp_path: Path
) -> None:
    for name in ("news", "clinic"):
        write_corpus(tmp_path / name, make_corpus(name, 12, 4, 4), "jsonl")
    tiny["train"]["epochs"] = 1
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(tiny | {"head": {"kind": "coin"}}))
    (tmp_path / "text.txt").write_text("Ada flew to Leeds .\n")
    nershift(
        package("coins", WORDS, heads="coin = coins:Coin"),
        ["transfer", "--method", "finetune", "--source", tmp_path / "news", "--target", tmp_path / "clinic",
         "--out", tmp_path / "run", "--config", tmp_path / "tiny.yaml", "--quiet"],
        ["predict", "--model", tmp_path / "run", tmp_path / "text.txt", "--out", tmp_path / "tagged.jsonl"],
    )  # fmt: skip
    assert json.loads((tmp_path / "run" / "model.json").read_text())["heads"]["target"]["kind"] == "coin"
    assert (tmp_path / "tagged.jsonl").exists()
