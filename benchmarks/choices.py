"""Short runs on dev splits, by which settings of the DATNet and CrossLM tables were chosen; no test split is read.

DATNet: conll2003_en → conll2002_es with 100 labelled sentences, batches of 16, a target batch in every step, 100 axes.
CrossLM: 3,000 sentences of conll2003_en, 600 of bionlp13cg, batches of 30, 250 dev sentences.

    python benchmarks/choices.py datnet|crosslm [--only NAME …] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import common  # noqa: F401 - finds `experiments`
from rich.console import Console

from experiments.datnet.tables import cell
from nershift.config import merge
from nershift.data.formats import read_corpus
from nershift.run import transfer

_BOTH = {"train": {"batch_size": 16}, "options": {"epoch_steps": 100, "sampling_exponent": 0.0}}
_ADAM = {"train": {"optimizer": "adam", "schedule": "constant", "clip": 5.0}}
_SINGLE = {"train": {"optimizer": "rmsprop", "lr": 1e-3, "schedule": "constant"}}
# Name → row of Table 4, whether the source has the target's sub-word vectors, steps, settings.
DATNET: dict[str, tuple[str, bool, int, Mapping[str, Any]]] = {
    "base, lr 3e-3": ("Base", True, 200, {"train": {"lr": 3e-3}}),
    "GloVe for the source, lr 1e-3": ("+ F-T (GRAD)", False, 300, {"train": {"lr": 1e-3}}),
    "sub-words for both, lr 1e-3": ("+ F-T (GRAD)", True, 300, {"train": {"lr": 1e-3}}),
    "sub-words for both, lr 3e-3": ("+ F-T (GRAD)", True, 300, {"train": {"lr": 3e-3}}),
    "sub-words for both, lr 1e-3, weight 10": (
        "+ F-T (GRAD)", True, 300, {"train": {"lr": 1e-3}, "options": {"adversary_weight": 10.0}},
    ),
    "sub-words for both, lr 3e-3, AT": ("+ AT + F-T (GRAD)", True, 200, {"train": {"lr": 3e-3}}),
}  # fmt: skip
CROSSLM: dict[str, tuple[str, Mapping[str, Any]]] = {
    "target alone, RMSprop 1e-3": ("target_only", {"preset": "crosslm", **_SINGLE}),
    "SGD 0.015": ("crosslm", {}),
    "Adam 3e-4 (1e-3 for the encoder)": (
        "crosslm", merge(_ADAM, {"train": {"lr": 3e-4, "encoder_lr": 1e-3}}),
    ),
    "Adam 1e-3": ("crosslm", merge(_ADAM, {"train": {"lr": 1e-3}})),
    "Adam 1e-3, LM weight 0.1": (
        "crosslm", merge(_ADAM, {"train": {"lr": 1e-3}, "options": {"lm_weight": 0.1}}),
    ),
    "Adam 3e-3, LM weight 0.1": (
        "crosslm", merge(_ADAM, {"train": {"lr": 3e-3}, "options": {"lm_weight": 0.1}}),
    ),
}  # fmt: skip
_CROSSLM_STEPS = 180


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("method", choices=["datnet", "crosslm"])
    parser.add_argument("--only", nargs="+", help="these choices only")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    one: Callable[[str, Path], dict[str, Any]] = datnet if options.method == "datnet" else crosslm
    names = list(DATNET if options.method == "datnet" else CROSSLM)
    rows = []
    for name in options.only or names:
        with tempfile.TemporaryDirectory() as folder:
            rows.append({"choice": name, **one(name, Path(folder) / "run")})
        Console().print(rows[-1])
    if options.json:
        options.json.write_text(json.dumps({"method": options.method, "rows": rows}, indent=2) + "\n")


def datnet(name: str, out: Path) -> dict[str, Any]:
    row, aligned, steps, settings = DATNET[name]
    made = cell("conll2002_es", row, aligned=aligned, axes=100, shots=100)
    config = merge(merge(made.config, _BOTH), settings)
    config = merge(config, {"train": {"max_steps": steps, "epochs": 1000, "patience": 0}})
    target = read_corpus("conll2002_es")
    target = target.with_splits(test=target.dev[:50])
    sources = [read_corpus(source) for source in made.sources]
    transfer("datnet", target, sources, out=out, shots=100, config=config, seed=1, quiet=True, report=False)
    return told(out)


def crosslm(name: str, out: Path) -> dict[str, Any]:
    method, settings = CROSSLM[name]
    short = {"max_steps": _CROSSLM_STEPS, "epochs": 1000}
    config = merge({"encoder": {"words": {"vectors": "glove.100d.txt"}}, "train": short}, settings)
    source, target = read_corpus("conll2003_en"), read_corpus("bionlp13cg")
    source = source.with_splits(train=source.train[:3000], dev=source.dev[:50])
    target = target.with_splits(train=target.train[:600], dev=target.dev[:250], test=target.dev[:50])
    sources = [source] if method == "crosslm" else []
    transfer(method, target, sources, out=out, config=config, seed=1, quiet=True, report=False)
    return told(out)


def told(out: Path) -> dict[str, Any]:
    """Dev F1 by step."""
    log = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return {"dev_f1": {entry["step"]: round(100 * entry["dev_f1"], 2) for entry in log}}


if __name__ == "__main__":
    main()
