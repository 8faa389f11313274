"""Every experiment at toy size: made-up corpora under the real names, small models, a few steps.

Run as a script it does the same on the machine's GPU: ``PYTHONPATH=. python tests/experiments/reduced.py [TABLE ...]``.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from experiments import jobs
from experiments.cells import Cell, Labels
from experiments.papers import TABLES
from experiments.plan import model_folder
from experiments.store import Result, ResultStore
from experiments.table import Table
from nershift.config import merge
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence

_WORDS = {
    "PER": ["Ada", "Okafor", "Moreau", "Tanaka"],
    "LOC": ["Leeds", "Porto", "Graz", "Lima"],
    "ORG": ["Acme", "Unesco", "Borealis"],
    "MISC": ["Nobel", "Dutch", "Sputnik"],
}
_TWEETS = {  # by their real names, which tables map to those above
    "wnut2016": ["person", "geo-loc", "company", "other"],
    "wnut2017": ["person", "location", "corporation"],
}
_PLAIN = ["the", "a", "of", "said", "in", "on", "went", "was", "and", "given", "stopped", ",", "."]
_SPLITS = {"train": 48, "dev": 12, "test": 12}
_PHASE = {"epochs": 2, "batch_size": 8, "updates": 6, "patience": 2}
SMALL: dict[str, Any] = {
    "encoder": {
        "words": {"size": 8},
        "chars": {"size": 6, "filters": 8, "widths": [2, 3], "max_length": 12},
        "recurrent": {"size": 8},
    },
    "pretrain": _PHASE,
    "train": _PHASE,
}


def _types(name: str, labels: Labels) -> list[str]:
    four = list(_WORDS)
    if labels == "homogeneous" or name.startswith(("conll", "wikigold", "cbs", "raw")):
        return four
    if name in ("europeana_fr", "msra_zh"):
        return four[:3]
    if name in _TWEETS:
        return [*_TWEETS[name], f"{name}_a"]
    return [*four, f"{name}_a"] if name.startswith("crossner") else [f"{name}_a", f"{name}_b", "LOC"]


def _sentence(types: Sequence[str], rng: random.Random) -> Sentence:
    tokens, spans = [], []
    for _ in range(rng.randint(2, 4)):
        tokens += rng.choices(_PLAIN, k=rng.randint(1, 2))
        kind = rng.choice(types)
        spans.append((len(tokens), len(tokens) + 1, kind))
        tokens.append(rng.choice(_WORDS.get(kind, [f"{kind}{i}" for i in range(3)])))
    return Sentence.of([*tokens, "."], spans)


@lru_cache(maxsize=64)
def corpus(name: str, labels: Labels) -> Corpus:
    rng = random.Random(name)
    types = _types(name, labels)
    splits = {s: tuple(_sentence(types, rng) for _ in range(n)) for s, n in _SPLITS.items()}
    if name.startswith("cbs"):
        del splits["train"], splits["dev"]
    language = {"es": "es", "nl": "nl", "de": "de", "fr": "fr", "zh": "zh"}.get(name[-2:], "en")
    return Corpus(name, splits, domain=name, language=language)


@lru_cache(maxsize=64)
def raw_text(described: str) -> list[Sentence]:
    return [s.with_spans(()) for s in corpus(described.split("@")[0].split(":")[0], "own").train]


def reduced(cell: Cell, over: Mapping[str, Any]) -> Cell:
    """The cell with few labels left as they are, but never more than the toy corpora have."""
    short = {k: min(v, 24) if k == "shots" and v else v for k, v in vars(cell).items()}
    teachers = tuple(reduced(teacher, over) for teacher in cell.teachers)
    return Cell(**{**short, "config": merge(cell.config, over), "teachers": teachers})


def one_of_each_row(table: Table) -> list[Cell]:
    rows: dict[str, Cell] = {}
    for cell in table.cells((1,)):
        rows.setdefault(table.place(cell)[0], cell)
    return list(rows.values())


def make_inputs(folder: Path) -> None:
    """Word vectors and encoders under the names that the tables use."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from tiny_encoders import make_encoder_folder

    rng = random.Random(0)
    words = sorted({w.lower() for ws in _WORDS.values() for w in ws} | set(_PLAIN))
    lines = "".join(f"{w} " + " ".join(f"{rng.gauss(0, 1):.3f}" for _ in range(8)) + "\n" for w in words)
    cells = [c for t in TABLES.values() for c in t.cells((1,))]
    for name in {str(v) for c in cells for v in _named(c.config, "vectors")}:
        if name.endswith((".txt", ".vec", ".gz")):
            (folder / name).write_text(lines, encoding="utf-8")
    kinds = {"multilingual": "bert", "mpnet": "mpnet", "distilbert": "distilbert", "minilm": "bert", "gemma": "gemma"}
    names = {str(v) for c in cells for v in _named(c.config.get("encoder"), "name")}
    for name in {part for joined in names for part in joined.split("+")}:
        make_encoder_folder(kinds[name.split("-")[0]], folder / name)


def _named(config: Any, key: str) -> list[Any]:
    if not isinstance(config, Mapping):
        return []
    return [v for k, v in config.items() if k == key and v] + [x for v in config.values() for x in _named(v, key)]


def run_reduced(cell: Cell, work: Path, device: str = "cpu") -> Result:
    """From pre-training to a finished result. Expects ``jobs`` to be patched."""
    small = reduced(cell, merge(SMALL, {"device": device}))
    for one in (*small.teachers, small):
        if one.pretraining:
            jobs.run_pretraining(one, work)
        if one is small or not model_folder(work, one).exists():
            jobs.run_cell(one, work, keep=one is not small)
    result = ResultStore(work, work).get(small)
    assert result is not None
    return result


def main() -> None:
    import os
    import tempfile
    import time

    jobs.corpus, jobs.raw_text = corpus, raw_text  # type: ignore[assignment]
    chosen = sys.argv[1:] or list(TABLES)
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder))
        os.environ["NERSHIFT_VECTORS"] = os.environ["NERSHIFT_ENCODERS"] = folder
        for name in chosen:
            for number, cell in enumerate(one_of_each_row(TABLES[name])):
                began = time.monotonic()
                try:
                    run_reduced(cell, Path(folder) / name / str(number), os.environ.get("DEVICE", "cuda"))
                    said = "ok"
                except Exception:
                    said = traceback.format_exc().strip().splitlines()[-1][:300]
                sys.stdout.write(f"{name} / {cell.name}: {time.monotonic() - began:.1f} s {said}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
