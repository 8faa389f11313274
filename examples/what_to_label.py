"""Which sentences to label next? Train on twenty, let the tagger choose twenty more, train again.

    python examples/what_to_label.py [OUT]

The built-in clinic notes play the annotator: their labels are known, and are looked up where you would write them.
Whether such a choice beats a random one is another question, which one run cannot answer: see docs/labelling.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nershift
from nershift.labelling.choose import choose

CONFIG = {"train": {"updates": 200}}


def main(out: Path) -> None:
    clinic = nershift.builtin_corpus("clinic")
    labelled, pool = list(clinic.train[:20]), list(clinic.train[20:220])

    def train(name: str, sentences: list[nershift.Sentence]) -> nershift.Run:
        corpus = nershift.Corpus("clinic", {"train": tuple(sentences), "test": clinic.splits["test"]})
        run = nershift.transfer("target_only", corpus, out=out / name, config=CONFIG, quiet=True, overwrite=True)
        print(f"{name:12} {len(sentences)} sentences   F1 {100 * run.f1:.1f}")
        return run

    first = train("first", labelled)
    choice = choose(first.tagger(), pool, 20, labelled=labelled)
    for row in choice.chosen[:3]:
        print(f"  {row.uncertainty:.2f}  {' '.join(row.sentence.tokens)}")
    train("with those", labelled + [pool[row.position] for row in choice.chosen])


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else "runs/what-to-label"))
