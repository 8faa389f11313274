"""The adapted encoders of the table `laner-dapt`: DistilBERT, trained further on raw text of three domains.

    python benchmarks/dapt.py [--out FOLDER] [--texts tweets …] [--steps 600] [--json FILE]

`NERSHIFT_DATA` holds the texts, `NERSHIFT_ENCODERS` the encoder (and, unless --out says otherwise, the results).
Dev and test sentences of the targets are removed from the text, regardless of case and spacing. The number of steps
bounds the time; training stops earlier when the held-out loss no longer falls. An interrupted run is resumed, a
finished one is left as it is.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from common import machine

from experiments.jobs import corpus, raw_text
from experiments.laner.steps import DAPT
from nershift.dapt.pretraining import dapt

RAW = {"biomedical": "raw_biomedical", "tweets": "wnut2017", "movie-reviews": "raw_movie_reviews"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--encoder", default="distilbert-cased")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("NERSHIFT_ENCODERS", ".")))
    parser.add_argument("--texts", nargs="*", default=list(RAW), choices=list(RAW))
    parser.add_argument("--steps", type=int, default=600, help="of 128 sentences, at most")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    metrics = {}
    for text in options.texts:
        targets = [corpus(target, "own") for target, raw in DAPT.items() if raw == text]
        settings = {
            "device": options.device,
            "train": {"max_steps": options.steps, "precision": "fp32" if options.device == "cpu" else "bf16"},
        }
        folder = options.out / f"{options.encoder}-{text}"
        metrics[text] = dapt(options.encoder, [raw_text(RAW[text])], out=folder, exclude=targets, config=settings)
        print(text, json.dumps(metrics[text]))
    if options.json:
        result = {"title": "Domain-adaptive pre-training", "machine": machine(options.device), "texts": metrics}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
