"""Is `nershift fit` a good chooser? ``python -m experiments.fit.judge run`` fits, ``… show`` compares, by situation.

A fit is judged on a corpus whose results are left out of its evidence. It is compared with what each recipe would have
had on test in hindsight, with the one recipe that was best on the other corpora, and with the README's advice.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.fit.evidence import collect
from experiments.jobs import corpus, raw_text
from experiments.store import ResultStore
from nershift.auto.evidence import Knowledge, Result, read_evidence
from nershift.auto.fit import fit
from nershift.auto.recipe import RECIPES
from nershift.console import say
from nershift.evaluation.stats import aggregate
from nershift.storage import write_text

FILE = Path(__file__).with_name("judged.jsonl")
SOURCES = ("wikigold", "conll2003_en")
SEED = 1  # which also draws the labels


@dataclass(frozen=True)
class Case:
    """A situation to judge the choice in.

    Attributes:
        advice: the recipe that the README's table names for it.
    """

    target: str
    labels: int
    sources: tuple[str, ...]
    encoder: str
    minutes: float
    advice: str
    raw: str = ""

    @property
    def name(self) -> str:
        sources = " and ".join(self.sources) or "no source"
        text = ", text" if self.raw else ""
        encoder = "no encoder" if self.encoder == "none" else self.encoder
        return f"{self.target}, {self.labels} labels, {sources}{text}, {encoder}"


CASES = (
    Case("crossner_music", 50, SOURCES, "none", 3, "finetune"),
    Case("wnut2016", 50, SOURCES, "none", 3, "finetune"),
    Case("mit_movie", 50, SOURCES, "none", 4, "target_only"),
    Case("crossner_music", 50, ("wikigold",), "none", 3, "finetune"),
    Case("crossner_music", 50, ("wikigold",), "minilm", 10, "encoder_target_only"),
    Case("bionlp13cg", 10, SOURCES, "none", 4, "target_only"),
    Case("crossner_politics", 10, SOURCES, "none", 4, "finetune"),
    Case("re3d", 200, SOURCES, "none", 4, "finetune"),
    Case("mit_restaurant", 200, SOURCES, "none", 4, "target_only"),
    Case("cbs_scitech", 0, SOURCES, "none", 4, "selftrain", "raw_abc_science@4000"),
    Case("mit_movie", 10, (), "minilm", 7, "encoder_target_only"),
    Case("sec_filings", 1000, SOURCES, "none", 6, "target_only"),
)


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
        "seconds": round(seconds, 1),
        "minutes": case.minutes,
        "cut": len(facts["cut"]),
        "tried": {r["recipe"]: {"f1": r["f1"], "trials": r["trials"], "fate": r["fate"]} for r in facts["tried"]},
        "ballots": facts["ballots"],
        "expected": facts["expected"],
    }
    shutil.rmtree(folder, ignore_errors=True)
    return row


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


def hindsight(case: Case, same_labels: Sequence[Result]) -> dict[str, float]:
    """Test F1 of each recipe in this very situation; the mean where it was run more than once.

    Args:
        same_labels: runs with the seed of the fits, so that they drew the same labels.
    """
    found = defaultdict[str, list[float]](list)
    for row in same_labels:
        if row.recipe not in RECIPES or (not case.raw and "raw text" in RECIPES[row.recipe].needs):
            continue
        same_sources = row.sources in ("", ",".join(case.sources))
        same_encoder = not row.millions or (case.encoder == "minilm" and row.millions < 30)
        if (row.target, row.labels) == (case.target, case.labels) and same_sources and same_encoder:
            found[row.recipe].append(row.f1)
    return {name: sum(scores) / len(scores) for name, scores in found.items()}


def fixed_choice(case: Case, evidence: Sequence[Result], able: Mapping[str, float]) -> str:
    """The recipe with the best mean rank of gains on the other corpora, whatever the situation."""
    gains = defaultdict[str, list[float]](list)
    for row, gain in Knowledge([r for r in evidence if r.target != case.target]).gains:
        if row.recipe in able:
            gains[row.recipe].append(gain)
    return max(gains, key=lambda name: sum(gains[name]) / len(gains[name]), default=next(iter(able)))


def as_markdown(done: Sequence[Mapping[str, Any]]) -> str:
    """The table of docs/fit.md."""
    evidence = read_evidence()
    same_labels = collect(run for run in ResultStore() if run.spec["seed"] == SEED)
    cases = {case.name: case for case in CASES}
    lines = ["| situation | chosen | fit | best recipe in hindsight | fixed choice | README's advice | seconds |"]
    lines.append("|---|---|---:|---:|---:|---:|---:|")
    regrets, over_fixed, over_advice = [], [], []
    for row in done:
        case = cases.get(row["case"])
        if case is None:
            continue
        able = hindsight(case, same_labels)
        if len(row["voters"]) == 1:  # one run of a recipe, with the seed that the others had
            able.setdefault(row["winner"], row["f1"])
        chosen = row["winner"] + (f" ×{len(row['voters'])}" if len(row["voters"]) > 1 else "")
        cells = [f"{100 * row['f1']:.1f}"]
        if able:
            best = max(able, key=lambda name: able[name])
            fixed = fixed_choice(case, evidence, able)
            regrets.append(able[best] - row["f1"])
            over_fixed.append(row["f1"] - able[fixed])
            cells += [f"{100 * able[best]:.1f} {best}", f"{100 * able[fixed]:.1f} {fixed}"]
            if case.advice in able:
                over_advice.append(row["f1"] - able[case.advice])
            cells.append(f"{100 * able[case.advice]:.1f}" if case.advice in able else "not run")
        else:
            cells += ["not run"] * 3
        lines.append(
            f"| {row['case']} | {chosen} | {' | '.join(cells)} | {row['seconds']:.0f} of {60 * row['minutes']:.0f} |"
        )
    for what, values in (("regret", regrets), ("over the fixed choice", over_fixed), ("over the advice", over_advice)):
        if len(values) > 1:
            told = aggregate([100 * v for v in values])
            lines.append(f"\nMean {what}: {told.mean:+.2f} ({told.low:+.2f} to {told.high:+.2f}), {told.n} situations.")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
