"""Sentences that several runs tag differently, as Markdown: CrossLM's Table 6 on your own runs.

    python benchmarks/compared_examples.py --runs "source only=RUN" "DANN=RUN" "CrossLM=RUN" [--limit 10] [--out FILE]

The runs must have one test split. First come sentences that the last run alone has right, then the others.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from adapted_examples import marked
from rich.console import Console

from nershift import Sentence
from nershift.errors import SetupError
from nershift.run import Run


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
        Console().print(text, markup=False)


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
    return f"{len(places)} sentences are tagged differently.\n\n" + "\n".join(parts)


def _interest(
    i: int, gold: Sequence[Sentence], predicted: Sequence[Sequence[Sentence]]
) -> tuple[int, int] | None:
    spans = [{(s.start, s.end, s.label) for s in tagged[i].spans} for tagged in predicted]
    if all(found == spans[0] for found in spans):
        return None
    right = [found == {(s.start, s.end, s.label) for s in gold[i].spans} for found in spans]
    return (0 if right[-1] and not any(right[:-1]) else 1 if right[-1] else 2), i


if __name__ == "__main__":
    main()
