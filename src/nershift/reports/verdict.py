"""Two plain sentences about a run: what works and what fails, and what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from nershift.evaluation.error_analysis import Analysis
from nershift.evaluation.metrics import Scores
from nershift.evaluation.run_warnings import RunWarning
from nershift.reports.model import RunReport

_WORKS, _FAILS = 0.8, 0.5  # F1 from which on a type works, and below which it fails
_RARE = 5  # a type with fewer gold mentions says nothing
_NAMED = 3  # types that a sentence names
_MORE_LABELS = "`nershift next --model RUN TEXT --out FILE` chooses some"


def verdict(report: RunReport) -> str:
    """Empty for a report without scores. In a command, ``RUN`` stands for the folder of the run.

    Example:
        >>> from collections import Counter
        >>> from nershift.evaluation.metrics import Counts
        >>> counts = {"place": Counts(9, 10, 10), "organisation": Counts(12, 14, 100)}
        >>> scores = Scores(Counts(21, 24, 110), counts, 80)
        >>> kinds = {"organisation": Counter({"correct": 12, "missed": 88})}
        >>> told, advice = verdict(RunReport("", scores=scores, analysis=Analysis(kinds, Counter()))).split(". ")
        >>> told
        'On test, place works (F1 90); organisation fails (recall 12)'
        >>> advice.split(": ")[0]
        'Label more sentences with organisation, of which 88 of 100 are missed'
    """
    if report.scores is None or report.analysis is None:
        return ""
    told = _what_works(report.scores, report.warnings)
    return f"{told} {_what_to_do(report.scores, report.analysis, report.warnings)}"


def _what_works(scores: Scores, warnings: Sequence[RunWarning]) -> str:
    if any(warning.level == "failed" for warning in warnings):
        return f"This tagger is of no use as it is: F1 is {_percent(scores.f1)} on test."
    if not scores.micro.support:
        return f"Nothing can be said: the {scores.sentences} test sentences have no entity."
    works, between, fails = _sorted(scores)
    if not (works or between or fails):
        return f"F1 is {_percent(scores.f1)} on test, but no type has {_RARE} entities there, too few to judge it."
    parts = []
    if works:
        name = "all types" if len(works) > 1 and not (between or fails) else _names(works)
        parts.append(f"{name} {_verb(works, 'work')} (F1 {_span(scores, works)})")
    if between:
        parts.append(f"{_names(between)} {'are' if len(between) > 1 else 'is'} so-so (F1 {_span(scores, between)})")
    if fails:
        worst = scores.by_type[fails[0]]
        why = ("recall", worst.recall) if worst.recall <= worst.precision else ("precision", worst.precision)
        told = f"{why[0]} {_percent(why[1])}" if len(fails) == 1 else f"F1 {_span(scores, fails)}"
        parts.append(f"{_names(fails)} {_verb(fails, 'fail')} ({told})")
    return f"On test, {'; '.join(parts)}."


def _what_to_do(scores: Scores, analysis: Analysis, warnings: Sequence[RunWarning]) -> str:
    serious = [warning for warning in warnings if warning.level != "hint"]
    if serious:
        said = "warnings say" if len(serious) > 1 else "warning says"
        return f"Do first what the {said}; then look at the examples."
    works, between, fails = _sorted(scores)
    if not (works or between or fails):
        return "Score it on more labelled sentences: `nershift evaluate --model RUN --data FILE`."
    if not (between or fails):
        return "Use it, with `nershift predict --model RUN`; the examples show what is left to mend."
    return _mend([*fails, *between][0], scores, analysis)


def _mend(label: str, scores: Scores, analysis: Analysis) -> str:
    """What helps against the most frequent kind of error of a type."""
    kinds, support = analysis.kinds.get(label, Counter[str]()), scores.by_type[label].support
    counts = {
        "missed": kinds.get("missed", 0),
        "taken": kinds.get("type", 0) + kinds.get("both", 0),
        "border": kinds.get("border", 0),
        "spurious": kinds.get("spurious", 0),
    }
    kind = max(counts, key=lambda name: counts[name])
    number = counts[kind]
    if kind == "missed":
        return f"Label more sentences with {label}, of which {number} of {support} are missed: {_MORE_LABELS}."
    if kind == "border":
        return f"Agree on where {label} begins and ends, which is wrong in {number} cases, and mend the labels."
    if kind == "spurious":
        return (
            f"Label more sentences in which words look like {label} and are not ({number} were taken for it), "
            "or use a threshold: `nershift thresholds --model RUN`."
        )
    other = max(
        ((pred, n) for (gold, pred), n in analysis.confusions.items() if gold == label),
        key=lambda row: (row[1], row[0]),
        default=("another type", number),
    )
    return f"Label more sentences that tell {label} from {other[0]}, for which {other[1]} are taken: {_MORE_LABELS}."


def _sorted(scores: Scores) -> tuple[list[str], list[str], list[str]]:
    """Types that work, the best first, those in between, and those that fail, both the worst first."""
    judged = {label: counts for label, counts in scores.by_type.items() if counts.support >= _RARE}
    ranked = sorted(judged, key=lambda label: (judged[label].f1, label))
    works = [label for label in reversed(ranked) if judged[label].f1 >= _WORKS]
    fails = [label for label in ranked if judged[label].f1 < _FAILS]
    return works, [label for label in ranked if label not in (*works, *fails)], fails


def _names(labels: Sequence[str]) -> str:
    named = list(labels if len(labels) <= _NAMED + 1 else labels[:_NAMED])
    if len(labels) > len(named):
        named.append(f"{len(labels) - len(named)} more types")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _verb(labels: Sequence[str], verb: str) -> str:
    return verb if len(labels) > 1 else f"{verb}s"


def _span(scores: Scores, labels: Sequence[str]) -> str:
    values = [scores.by_type[label].f1 for label in labels]
    least, most = _percent(min(values)), _percent(max(values))
    return least if least == most else f"{least} to {most}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"
