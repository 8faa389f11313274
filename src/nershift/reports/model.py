"""The report of a run as a value: saved as JSON, rendered elsewhere.

``RunReport.to_dict`` is the stable shape (all scores are fractions of 1)::

    {"version": 1, "title": str, "method": str, "verdict": str, "notes": [str],
     "warnings": [{"kind", "level": "failed" | "warning" | "hint", "found", "fix"}], the worst first,
     "scores": Scores.to_dict() | null, "f1_interval": {"value", "low", "high", "level"} | null,
     "token_scores": Scores.to_dict() | null, "analysis": Analysis.to_dict() | null,
     "comparisons": [{"name", "mean", "low", "high", "n", "note"}],
     "curves": [{"name", "xs", "ys", "lo", "hi"}], "curve_axes": [x, y],
     "calibration": {"temperature", "thresholds", "dev": {"before", "after"}, "test": {...}}, all of it optional,
     "states": [{"name", "source": [[x, y]], "target": [[x, y]], "a_distance", "picture"}],
     "log": [{"phase", "step", "epoch", ...}], "config": {...}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nershift.data.spans import Sentence
from nershift.errors import CheckpointError
from nershift.evaluation.error_analysis import Analysis, analyse
from nershift.evaluation.metrics import Predicted, Scores, score, sentence_counts, token_scores
from nershift.evaluation.run_warnings import RunWarning
from nershift.evaluation.stats import Estimate, SeedSummary, bootstrap_f1
from nershift.parsing import parse_json
from nershift.reports.states import StateMap
from nershift.storage import write_text

VERSION = 1


@dataclass(frozen=True)
class ComparisonRow:
    """One system in a table of systems: mean F1 over ``n`` runs, with an interval where there is one."""

    name: str
    mean: float
    low: float | None = None
    high: float | None = None
    n: int = 1
    note: str = ""

    @classmethod
    def of(cls, name: str, summary: SeedSummary | Estimate, note: str = "") -> ComparisonRow:
        if isinstance(summary, Estimate):
            return cls(name, summary.value, summary.low, summary.high, 1, note)
        return cls(name, summary.mean, summary.low, summary.high, summary.n, note)


@dataclass(frozen=True)
class Curve:
    """F1 against, say, the number of labelled sentences; ``lo`` and ``hi`` are empty or as long as ``ys``."""

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lo: tuple[float, ...] = ()
    hi: tuple[float, ...] = ()


@dataclass(frozen=True)
class RunReport:
    """A run, or a comparison of runs; renderings omit empty parts.

    Example:
        >>> gold = [Sentence.of(["Ada", "left"], [(0, 1, "PER")])]
        >>> report = RunReport.of("toy run", gold, gold, method="finetune")
        >>> report.scores.f1, RunReport.from_dict(report.to_dict()) == report
        (1.0, True)
    """

    title: str
    method: str = ""
    verdict: str = ""
    notes: tuple[str, ...] = ()
    warnings: tuple[RunWarning, ...] = ()
    scores: Scores | None = None
    f1_interval: Estimate | None = None
    token_scores: Scores | None = None
    analysis: Analysis | None = None
    comparisons: tuple[ComparisonRow, ...] = ()
    curves: tuple[Curve, ...] = ()
    curve_axes: tuple[str, str] = ("labelled sentences", "F1")
    calibration: Mapping[str, Any] = field(default_factory=dict)
    states: tuple[StateMap, ...] = ()
    log: tuple[Mapping[str, Any], ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        title: str,
        gold: Sequence[Sentence],
        pred: Predicted,
        *,
        train: Iterable[Sentence] = (),
        examples: int = 12,
        seed: int = 0,
        **parts: Any,
    ) -> RunReport:
        """Score and analyse predictions; ``parts`` are further fields of the report."""
        return cls(
            title,
            scores=score(gold, pred),
            f1_interval=bootstrap_f1(sentence_counts(gold, pred), seed=seed),
            token_scores=token_scores(gold, pred),
            analysis=analyse(gold, pred, train, examples),
            **parts,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION,
            "title": self.title,
            "method": self.method,
            "verdict": self.verdict,
            "notes": list(self.notes),
            "warnings": [asdict(warning) for warning in self.warnings],
            "scores": self.scores.to_dict() if self.scores else None,
            "f1_interval": self.f1_interval.to_dict() if self.f1_interval else None,
            "token_scores": self.token_scores.to_dict() if self.token_scores else None,
            "analysis": self.analysis.to_dict() if self.analysis else None,
            "comparisons": [asdict(row) for row in self.comparisons],
            "curves": [{k: list(v) if k != "name" else v for k, v in asdict(c).items()} for c in self.curves],
            "curve_axes": list(self.curve_axes),
            "calibration": dict(self.calibration),
            "states": [asdict(found) for found in self.states],
            "log": [dict(entry) for entry in self.log],
            "config": dict(self.config),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> RunReport:
        return cls(
            title=row["title"],
            method=row["method"],
            verdict=row["verdict"],
            notes=tuple(row["notes"]),
            warnings=tuple(map(RunWarning.from_dict, row.get("warnings", ()))),
            scores=Scores.from_dict(row["scores"]) if row["scores"] else None,
            f1_interval=Estimate(**row["f1_interval"]) if row["f1_interval"] else None,
            token_scores=Scores.from_dict(row["token_scores"]) if row["token_scores"] else None,
            analysis=Analysis.from_dict(row["analysis"]) if row["analysis"] else None,
            comparisons=tuple(ComparisonRow(**c) for c in row["comparisons"]),
            curves=tuple(Curve(c["name"], *(tuple(c[k]) for k in ("xs", "ys", "lo", "hi"))) for c in row["curves"]),
            curve_axes=(row["curve_axes"][0], row["curve_axes"][1]),
            calibration=row.get("calibration", {}),
            states=tuple(map(StateMap.from_dict, row.get("states", ()))),
            log=tuple(row["log"]),
            config=row["config"],
        )

    def save(self, path: str | Path) -> None:
        write_text(Path(path), json.dumps(self.to_dict(), ensure_ascii=False, indent=1) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> RunReport:
        """Read what :meth:`save` wrote.

        Raises:
            CheckpointError: The file is missing, is not JSON, or is not a report of this version.
        """
        try:
            row = parse_json(Path(path).read_text(encoding="utf-8"))
            if row["version"] != VERSION:
                raise _unusable(path, f"report version {row['version']}")
            return cls.from_dict(row)
        except OSError as problem:
            raise _unusable(path, f"cannot be read: {problem.strerror}") from None
        except ValueError:
            raise _unusable(path, "not JSON") from None
        except (KeyError, TypeError, IndexError, AttributeError) as problem:
            raise _unusable(path, f"not a report: {type(problem).__name__} at {problem}") from None


def _unusable(path: str | Path, found: str) -> CheckpointError:
    return CheckpointError(
        found,
        place=str(path),
        expected=f"a nershift report (version {VERSION})",
        fix="make the report again with `nershift evaluate`",
    )
