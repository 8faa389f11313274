"""Your own labels: read a folder, train, see the score with its interval, tag text.

    python examples/own_labels.py [FOLDER] [OUT]

FOLDER holds `train` and `test` files in any format that nershift reads. By default it is the bicycle workshop beside
this file.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nershift

HERE = Path(__file__).parent
TEXT = "Rear brake squeals on the Trek, pads look worn."


def main(folder: Path, out: Path) -> None:
    corpus = nershift.read_corpus(folder)
    print(f"{len(corpus.train)} sentences to learn from, types: {', '.join(corpus.types)}")

    # Fewer updates than the default (1,000), so that this example is quick.
    config = {"train": {"updates": 400}}
    run = nershift.transfer("target_only", corpus, out=out, config=config, quiet=True, overwrite=True)
    low, high = run.metrics["test"]["interval"]
    print(f"F1 {100 * run.f1:.1f}, 95% interval {100 * low:.1f} to {100 * high:.1f}")

    for entity in run.tagger().predict(TEXT):
        print(f"{entity.text:12} {entity.label:8} {entity.score:.2f}")
    print(f"report: {out / 'report.html'}")


if __name__ == "__main__":
    arguments = [Path(word) for word in sys.argv[1:]]
    main(*arguments, *[HERE / "data" / "workshop", Path("runs/own-labels")][len(arguments) :])
