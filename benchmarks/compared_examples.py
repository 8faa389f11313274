"""Sentences that several runs tag differently, as Markdown: CrossLM's Table 6 on your own runs.

    python benchmarks/compared_examples.py --runs "source only=RUN" "DANN=RUN" "CrossLM=RUN" [--limit 10] [--out FILE]

The runs must have one test split. First come sentences that the last run alone has right, then the others.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from adapted_examples import marked
from rich.console import Console

from nershift import Sentence
from nershift.errors import SetupError
from nershift.run import Run

# Which runs have a sentence right: the last alone, some others too, not the last, all but the last.
ALONE, OTHERS_TOO, NOT, WRONG = range(4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", nargs="+", required=True, help="NAME=FOLDER; the one to look at last")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    text = compare(dict(run.split("=", 1) for run in options.runs), options.limit)
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        Console().print(text, markup=False, soft_wrap=True)


def compare(folders: Mapping[str, str], limit: int) -> str:
    found = {name: Run.open(Path(folder)).predictions() for name, folder in folders.items()}
    (gold, *others), predicted = (tuple(part) for part in zip(*found.values(), strict=True))
    if any([s.tokens for s in other] != [s.tokens for s in gold] for other in others):
        raise SetupError("the runs were tested on different sentences", place="--runs")
    places = sorted(
        (place for i in range(len(gold)) if (place := _interest(i, gold, predicted)) is not None),
    )
    parts = []
    for _, i in places[:limit]:
        rows = [("gold", gold[i]), *((name, tagged[i]) for name, (_, tagged) in found.items())]
        parts.append("| | |\n|---|---|\n" + "".join(f"| {name} | {marked(s)} |\n" for name, s in rows))
    count = Counter(kind for kind, _ in places)
    told = (
        f"{len(places)} of {len(gold)} sentences are tagged differently; "
        f"the last run alone is right in {count[ALONE]}, alone wrong in {count[WRONG]}."
    )
    return f"{told}\n\n" + "\n".join(parts)


def _interest(i: int, gold: Sequence[Sentence], predicted: Sequence[Sequence[Sentence]]) -> tuple[int, int] | None:
    if all(tagged[i].spans == predicted[0][i].spans for tagged in predicted):
        return None
    *others, last = (tagged[i].spans == gold[i].spans for tagged in predicted)
    if last:
        return (OTHERS_TOO if any(others) else ALONE), i
    return (WRONG if all(others) else NOT), i


if __name__ == "__main__":
    main()
