"""Is `nershift fit` a good chooser? ``python -m experiments.fit.judge run`` fits, ``… show`` compares, by situation.

A fit is judged on a corpus whose results are left out of its evidence. It is compared with what each recipe would have
on test in hindsight (table `fit-judged`), with the one recipe that was best on the other corpora, and with the advice
of our pages, today's and that of the time before there was a fit.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from experiments.fit.cases import CASES, SEED, Case
from experiments.jobs import corpus, raw_text
from experiments.store import ResultStore
from nershift.auto.evidence import Knowledge, Result, read_evidence
from nershift.auto.fit import fit
from nershift.auto.result import Fit
from nershift.console import say
from nershift.data.corpus import Corpus
from nershift.evaluation.metrics import score
from nershift.evaluation.stats import aggregate
from nershift.storage import write_text
from nershift.tagger.tagger import Tagger

TABLE = "fit-judged"
FILE = Path(__file__).with_name("judged.jsonl")


def judge(case: Case) -> dict[str, Any]:
    """Fit once and keep what was chosen and what it scores on test."""
    folder = Path(tempfile.mkdtemp())
    raw = {"target": raw_text(case.raw)} if case.raw else None
    target = corpus(case.target, "own")
    began = time.monotonic()
    done = fit(
        target,
        [corpus(name, "own") for name in case.sources],
        out=folder / "fit",
        raw=raw,
        shots=case.labels if case.labels else None,
        encoder=case.encoder,
        minutes=case.minutes,
        seed=SEED,
        without=[case.target],
        report=False,
        tell=say,
    )
    seconds = time.monotonic() - began
    facts = done.facts
    row = {
        "case": case.name,
        "winner": facts["winner"],
        "voters": facts["voters"],
        "f1": round(done.f1, 4),
        "alone": round(_alone(done, target), 4),
        "seconds": round(seconds, 1),
        "minutes": case.minutes,
        "cut": len(facts["cut"]),
        "tried": {r["recipe"]: {"f1": r["f1"], "trials": r["trials"], "fate": r["fate"]} for r in facts["tried"]},
        "ballots": facts["ballots"],
        "expected": facts["expected"],
    }
    shutil.rmtree(folder, ignore_errors=True)
    return row


def _alone(done: Fit, target: Corpus) -> float:
    """Test F1 of the winner without those that vote with it."""
    return score(target.test, Tagger.load(done.folder).tag_sentences(target.test)).f1


def main(words: Sequence[str]) -> None:
    done = [json.loads(line) for line in FILE.read_text().splitlines()] if FILE.exists() else []
    if words[:1] == ["show"]:
        say(as_markdown(done))
        return
    for case in CASES:
        known = {row["case"] for row in done}
        if case.name not in known and (len(words) < 2 or words[1] in case.name):
            done.append(judge(case))
            write_text(FILE, "".join(json.dumps(row) + "\n" for row in done))


def hindsight(case: Case, store: ResultStore) -> dict[str, float]:
    """Test F1 of each recipe in this very situation, with the labels and the seed of the fit (table `fit-judged`)."""
    cells = {name: replace(case.cell(recipe), table=TABLE, seed=SEED) for name, recipe in case.recipes().items()}
    found = {name: store.get(cell) for name, cell in cells.items()}
    return {name: float(run.metrics["test"]["f1"]) for name, run in found.items() if run is not None}


def fixed_choice(case: Case, evidence: Sequence[Result], able: Mapping[str, float]) -> str:
    """The recipe with the best mean gain on the other corpora, whatever the situation."""
    gains = defaultdict[str, list[float]](list)
    for row, gain in Knowledge([r for r in evidence if r.target != case.target]).gains:
        if row.recipe in able:
            gains[row.recipe].append(gain)
    return max(gains, key=lambda name: sum(gains[name]) / len(gains[name]), default=next(iter(able)))


@dataclass(frozen=True)
class Compared:
    """A fit beside what else could have been done with the same labels: F1 on test."""

    case: Case
    row: Mapping[str, Any]
    able: Mapping[str, float]
    fixed: str

    @property
    def f1(self) -> float:
        return float(self.row["f1"])

    @property
    def best(self) -> str:
        return max(self.able, key=lambda name: self.able[name])

    def over(self, recipe: str) -> float | None:
        return self.f1 - self.able[recipe] if recipe in self.able else None

    def cells(self) -> list[str]:
        vote = f" ×{len(self.row['voters'])}" if len(self.row["voters"]) > 1 else ""
        told = [
            self.row["case"],
            self.row["winner"] + vote,
            f"{100 * self.f1:.1f}" + (f" ({100 * self.row['alone']:.1f})" if vote else ""),
        ]
        for name in (self.best, self.fixed, self.case.advice, self.case.first_advice):
            told.append(f"{100 * self.able[name]:.1f} {name}" if name in self.able else "-")
        return [*told, f"{self.row['seconds']:.0f} of {60 * self.row['minutes']:.0f}"]


def compare(done: Sequence[Mapping[str, Any]]) -> list[Compared]:
    evidence, store = read_evidence(), ResultStore()
    cases = {case.name: case for case in CASES}
    found = []
    for row in done:
        if row["case"] in cases:
            case = cases[row["case"]]
            able = {row["winner"]: row["alone"]} | hindsight(case, store)
            found.append(Compared(case, row, able, fixed_choice(case, evidence, able)))
    return found


_HEAD = (
    "situation", "chosen", "fit (its winner alone)", "best recipe in hindsight", "fixed choice", "today's advice",
    "advice before fit", "seconds",
)  # fmt: skip


def as_markdown(done: Sequence[Mapping[str, Any]]) -> str:
    """The table of docs/fit.md, and what it comes to."""
    compared = compare(done)
    lines = ["| " + " | ".join(_HEAD) + " |", "|---|---|" + "---:|" * (len(_HEAD) - 2)]
    lines += ["| " + " | ".join(one.cells()) + " |" for one in compared]
    lines += _means(compared)
    if fresh := [one for one in compared if one.case.fresh]:
        lines += ["\nOf these, the situations that were added when the rules of fit were fixed:", *_means(fresh)]
    return "\n".join(lines)


def _means(compared: Sequence[Compared]) -> list[str]:
    voted = [one for one in compared if len(one.row["voters"]) > 1]
    differences: dict[str, list[float | None]] = {
        "regret": [one.able[one.best] - one.f1 for one in compared],
        "over the fixed choice": [one.over(one.fixed) for one in compared],
        "over today's advice": [one.over(one.case.advice) for one in compared],
        "over the advice before there was a fit": [one.over(one.case.first_advice) for one in compared],
        "gain of votes over their winners alone": [one.f1 - one.row["alone"] for one in voted],
    }
    lines = []
    for what, values in differences.items():
        there = [100 * v for v in values if v is not None]
        if len(there) > 1:
            told = aggregate(there)
            lines.append(f"\nMean {what}: {told.mean:+.2f} ({told.low:+.2f} to {told.high:+.2f}), {told.n} situations.")
    return lines


if __name__ == "__main__":
    main(sys.argv[1:])
