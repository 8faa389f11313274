"""Is one run better than another? The paired test on the same test sentences, as a value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nershift.arguments import as_path
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, DataError
from nershift.evaluation.metrics import sentence_counts
from nershift.evaluation.predictions import read_predictions
from nershift.evaluation.stats import Comparison
from nershift.evaluation.stats import compare as compare_counts

if TYPE_CHECKING:
    from nershift.run_folder import Run

Pairs = tuple[list[Sentence], list[Sentence]]  # gold and predicted


def compare(
    run_a: str | Path | Run,
    run_b: str | Path | Run,
    *,
    samples: int = 1000,
    permutations: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two runs on the same test sentences: F1 of each, their difference, intervals and p-values.

    Args:
        run_a: a finished run, its folder, or a ``predictions.jsonl`` file.
        run_b: the same of the second system; the difference is B minus A.
        samples: bootstrap samples, for the intervals.
        permutations: random swaps of the two outputs, for the p-value.

    Raises:
        DataError: if the runs were scored on different sentences or different gold entities.

    Example:
        >>> test = compare("runs/news-1", "runs/news-2")
        >>> test.difference.value == test.b.value - test.a.value, test.sentences
        (True, 60)
        >>> compare("runs/news-1", "runs/news-1").verdict("first", "second")
        'first and second score the same on these 60 sentences.'
    """
    a, b = _predictions(run_a), _predictions(run_b)
    _need_same_test(a[0], b[0])
    return compare_counts(sentence_counts(*a), sentence_counts(*b), samples, permutations, seed)


def _predictions(run: str | Path | Run) -> Pairs:
    path = as_path(getattr(run, "folder", run), "compare", "a finished run, its folder, or a predictions.jsonl file")
    if not path.is_dir():
        return read_predictions(path)
    for name in ("metrics.json", "predictions.jsonl"):
        if not (path / name).exists():
            raise CheckpointError(
                f"there is no {name} in it",
                place=str(path),
                expected="the folder of a finished run with a test split",
                fix="finish the run, or name two predictions.jsonl files",
            )
    return read_predictions(path / "predictions.jsonl")


def _need_same_test(a: list[Sentence], b: list[Sentence]) -> None:
    """Refuse a paired test on different sentences or different gold, naming the first difference."""
    if len(a) != len(b):
        found = f"the runs have {len(a)} and {len(b)} test sentences"
    else:
        at = next((i for i, (x, y) in enumerate(zip(a, b, strict=True)) if x != y), None)
        if at is None:
            return
        what = "tokens" if a[at].tokens != b[at].tokens else "gold entities"
        found = f"the {what} of test sentence {at + 1} differ: {a[at].place} and {b[at].place}"
    raise DataError(
        found,
        place="compare",
        expected="two runs on the same test data",
        fix="train or evaluate both on one test file",
    )
