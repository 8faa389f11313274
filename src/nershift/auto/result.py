"""What a fit found: told in sentences, written as `fit.json`, and added to the report of the tagger."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from nershift.auto.ask import Ask, identity
from nershift.auto.evidence import Knowledge
from nershift.auto.folder import FIT
from nershift.auto.materials import TARGET, Materials
from nershift.auto.plan import Plan
from nershift.auto.race import Runner, beliefs
from nershift.auto.recipe import RECIPES
from nershift.auto.votes import Ballot
from nershift.config import read_yaml
from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, NershiftError
from nershift.evaluation.calibration import before_and_after
from nershift.evaluation.metrics import score, sentence_counts
from nershift.evaluation.predictions import write_predictions
from nershift.evaluation.run_warnings import run_warnings
from nershift.evaluation.stats import bootstrap_f1, paired_bootstrap
from nershift.labelling.choose import choose
from nershift.reports.run import read_log, read_metrics, write_report
from nershift.run_folder import Run
from nershift.storage import write_text
from nershift.tagger.ensemble import Ensemble
from nershift.tagger.tagger import Tagger

_NEXT, _POOL = 10, 5_000  # sentences to label next, of so many
_STARTED = "Started from the pretraining in "  # a remark on a folder that is gone


@dataclass(frozen=True)
class Fit:
    """The folder of a finished fit; also the folder of a run, with ``fit.json`` beside."""

    folder: Path
    facts: dict[str, Any]

    @classmethod
    def open(cls, folder: str | Path) -> Fit:
        path = Path(folder) / FIT
        try:
            return cls(Path(folder), json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            raise CheckpointError(
                "not a finished fit", place=str(folder), expected=f"a folder with {FIT}", fix="nershift fit --out DIR"
            ) from None

    @property
    def winner(self) -> str:
        """The recipe that was chosen."""
        return str(self.facts["winner"])

    @property
    def run(self) -> Run:
        return Run.open(self.folder)

    @property
    def f1(self) -> float:
        """On test, as a fraction of 1."""
        return self.run.f1

    def tagger(self, device: str = "cpu") -> Ensemble:
        """The chosen tagger, or all that vote."""
        return Ensemble.load([self.folder], device)

    def summary(self) -> list[str]:
        """What was tried and why the winner won, in lines."""
        rows = self.facts["tried"]
        width = max(len(row["recipe"]) for row in rows)
        lines = []
        for row in rows:
            f1 = (
                f"F1 {_points(row['f1'])} ({_points(row['low'])} to {_points(row['high'])})"
                if row["f1"] is not None
                else ""
            )
            lines.append(f"  {row['recipe']:<{width}}  {f1 or '-':<24}  {row['fate']}")
        return [*lines, "", *self.facts["reasons"], f"the winner alone: {self.facts['command']}"]


@dataclass(frozen=True)
class Outcome:
    """How a race ended.

    Attributes:
        runners: those that did not fail, the best first.
        winner: the recipe of the tagger in the folder; ``voters`` all that vote.
        cut: jobs for which there was no time.
    """

    plan: Plan
    runners: tuple[Runner, ...]
    failed: tuple[Runner, ...]
    winner: str
    voters: tuple[str, ...]
    ballots: tuple[Ballot, ...]
    seconds: float
    cut: tuple[str, ...]
    interrupted: bool

    def write(self, folder: Path, ask: Ask, materials: Materials, known: Knowledge, *, report: bool) -> Fit:
        """Score on test, write ``fit.json`` last of all, and return the fit."""
        tagger = Ensemble.load([folder])
        tested = _score_on_test(folder, tagger, ask.target.splits.get("test", ()), self.voters)
        facts: dict[str, Any] = {
            "version": 1,
            "finished": not self.interrupted,
            "winner": self.winner,
            "voters": list(self.voters),
            "seconds": round(self.seconds, 1),
            "tried": [*self._tried(), *self._not_tried()],
            "reasons": self._reasons(known, tested),
            "expected": self._expected(),
            "twice_the_labels": self._twice(known),
            "ballots": [
                {"voters": list(b.voters), "gain": b.gain.to_dict() if b.gain else None, "expected": b.expected}
                for b in self.ballots
            ],
            "next": _next(tagger.taggers[0], ask),
            "command": command(ask, self.winner, materials, folder),
            "cut": list(self.cut),
            "plan": self.plan.to_dict(),
            "asked": identity(ask),
        }
        _add_to_run(folder, facts)
        if report:
            write_report(folder)
        write_text(folder / FIT, json.dumps(facts, indent=1, ensure_ascii=False))
        return Fit.open(folder)

    def _tried(self) -> list[dict[str, Any]]:
        believed = beliefs([r for r in self.runners if r.left is None])
        rows = []
        for runner in (*self.runners, *self.failed):
            found, prior = runner.score(), runner.expected
            rows.append(
                {
                    "recipe": runner.name,
                    "says": RECIPES[runner.name].says,
                    "f1": found.value if found else None,
                    "low": found.low if found else None,
                    "high": found.high if found else None,
                    "trials": len(runner.predictions),
                    "evidence": asdict(prior),
                    "belief": asdict(believed[runner.name]) if runner.name in believed else None,
                    "fate": self._fate(runner),
                }
            )
        return rows

    def _fate(self, runner: Runner) -> str:
        if runner.failed:
            return f"failed: {runner.failed.splitlines()[0]}"
        if runner.name == self.winner:
            return "won"
        if runner.left is not None:
            return f"left after {runner.left} of {self.plan.trials}"
        if runner in self._ahead:
            return "no time to train it"
        return "not judged" if not runner.predictions else "beaten at the end"

    def _not_tried(self) -> list[dict[str, Any]]:
        empty = dict.fromkeys(("f1", "low", "high", "evidence", "belief"))
        return [
            {"recipe": name, "says": RECIPES[name].says, "trials": 0, "fate": f"left out: {why}"} | empty
            for name, why in self.plan.left_out
        ]

    def _reasons(self, known: Knowledge, tested: float | None) -> list[str]:
        """Why this tagger, in sentences."""
        here, winner = self.plan.situation, self._won
        told = [f"{self.winner} trains {RECIPES[self.winner].says}.", *self._why_not_the_best()]
        second = next((r for r in self.runners if r is not winner and r.predictions and r not in self._ahead), None)
        score = winner.score() if winner is not None else None
        if winner is None or score is None:
            told.append(
                "It was chosen by what recipes reached on other corpora: nothing could be judged here in the time."
            )
        else:
            what = (
                "on dev"
                if here.dev
                else "on labels that were held out"
                if here.labelled
                else "on sources that played the target"
            )
            told.append(f"It has F1 {_points(score.value)} {what} ({_points(score.low)} to {_points(score.high)}).")
            if second is not None:
                told.append(_against(winner, second))
        if len(self.voters) > 1:
            told.append(self._why_a_vote())
        twice = self._twice(known)
        if twice is not None:
            told.append(
                f"With twice the labels, expect about {100 * twice['gain']:.0f} F1 more "
                f"(other corpora gained {100 * twice['low']:.0f} to {100 * twice['high']:.0f})."
            )
        if tested is not None:
            told.append(f"On test, which was read once and chose nothing, F1 is {_points(tested)}.")
        if self.cut:
            told.append(
                f"There was no time for {len(self.cut)} of the planned trainings; with more --minutes all would run."
            )
        if self.interrupted:
            told.append("The fit was interrupted: the same command goes on.")
        return told

    @property
    def _won(self) -> Runner | None:
        return next((r for r in self.runners if r.name == self.winner), None)

    @property
    def _ahead(self) -> list[Runner]:
        """Recipes that were judged better than the one of the tagger."""
        names = [r.name for r in self.runners]
        return list(self.runners[: names.index(self.winner)]) if self.winner in names else []

    def _why_not_the_best(self) -> list[str]:
        """Where the tagger is not of the best recipe."""
        no_time = "was judged better, but there was no time to train it on all labels."
        late = [f"{r.name} {no_time}" for r in self._ahead if r.predictions]
        judged = [r for r in self.failed if r.predictions]
        return late + [f"{r.name} was judged too, and then failed: {r.failed.splitlines()[0]}." for r in judged]

    def _why_a_vote(self) -> str:
        found = next((b for b in self.ballots if b.voters == self.voters), None)
        told = f"{len(self.voters)} taggers vote ({', '.join(self.voters)})"
        if found is None or found.gain is None:
            gain = 100 * (found.expected if found else 0.0)
            return f"{told}. There was no time to judge the vote here; elsewhere such votes gained about {gain:.1f} F1."
        return f"{told}: {100 * found.gain.value:+.1f} F1 where it was judged."

    def _expected(self) -> dict[str, float] | None:
        """F1 where the winner was judged."""
        winner = self._won
        found = winner.score() if winner is not None else None
        return found.to_dict() if found is not None else None

    def _twice(self, known: Knowledge) -> dict[str, float] | None:
        found = known.twice_the_labels(self.winner, self.plan.situation) if self.plan.situation.labelled else None
        if found is None:
            return None
        gain, sd = found
        return {"gain": round(gain, 4), "low": round(gain - 2 * sd, 4), "high": round(gain + 2 * sd, 4)}


def _against(winner: Runner, second: Runner) -> str:
    """How the winner stands beside the next best, on the trials that both ran."""
    common = sorted(set(winner.predictions) & set(second.predictions))
    gap, _ = paired_bootstrap(second.counts(common), winner.counts(common))
    sure = "" if gap.low > 0 or gap.high < 0 else ", which may well be chance"
    prior = winner.expected.gain - second.expected.gain
    elsewhere = f"elsewhere it was {abs(100 * prior):.1f} {'better' if prior >= 0 else 'worse'} in situations like this"
    return (
        f"Beside {second.name}, the next, it has {100 * gap.value:+.1f} F1 on the same sentences "
        f"({100 * gap.low:+.1f} to {100 * gap.high:+.1f}{sure}); {elsewhere}."
    )


def _score_on_test(folder: Path, tagger: Ensemble, gold: Sequence[Sentence], voters: Sequence[str]) -> float | None:
    """Complete the run folder with the scores of its tagger, or of all that vote."""
    metrics = read_metrics(folder)
    metrics["resumable"], metrics["start"] = False, None
    metrics["remarks"] = [r for r in metrics.get("remarks", []) if not r.startswith(_STARTED)]
    if len(voters) > 1:
        metrics["remarks"].append(f"Scores are those of {len(voters)} taggers that vote: {', '.join(voters)}.")
    if gold:
        predicted = tagger.tag_sentences(gold)
        interval = bootstrap_f1(sentence_counts(gold, predicted))
        metrics["test"] = score(gold, predicted).to_dict() | {"interval": [interval.low, interval.high]}
        metrics.setdefault("calibration", {})["test"] = before_and_after(gold, None, predicted)
        write_predictions(folder / "predictions.jsonl", gold, predicted)
    elif (folder / "predictions.jsonl").exists():
        (folder / "predictions.jsonl").unlink()
    config = read_yaml(folder / "config.yaml")
    metrics["warnings"] = [asdict(w) for w in run_warnings(metrics, read_log(folder / "log.jsonl"), config)]
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))
    return metrics["test"]["f1"] if gold else None


def _add_to_run(folder: Path, facts: dict[str, Any]) -> None:
    """The race belongs to the notes and comparisons of the run, and so to its report."""
    metrics = read_metrics(folder)
    metrics["remarks"] = [*facts["reasons"], *metrics["remarks"]]
    metrics["tried"] = [{k: row[k] for k in ("recipe", "f1", "low", "high", "fate")} for row in facts["tried"]]
    write_text(folder / "metrics.json", json.dumps(metrics, indent=1))


def _next(tagger: Tagger, ask: Ask) -> list[dict[str, Any]]:
    """Sentences of the target's text that would teach the tagger most."""
    text = next((text for name, text in ask.raw.items() if name in (TARGET, ask.target.name)), ())
    pool = list(text[:_POOL])
    if len(pool) < _NEXT:
        return []
    try:
        choice = choose(tagger, pool, _NEXT, labelled=ask.target.splits.get("train", ()))
    except NershiftError:
        return []
    return [{"tokens": list(c.sentence.tokens), "uncertainty": round(c.uncertainty, 4)} for c in choice.chosen]


def command(ask: Ask, winner: str, materials: Materials, folder: Path) -> str:
    """The command that trains the winner alone, without a race."""
    recipe = RECIPES[winner]
    settings = materials.settings(recipe)
    settings.pop("device", None)
    words = [
        "nershift",
        "transfer",
        "--method",
        recipe.method,
        "--target",
        ask.places.get(ask.target.name, ask.target.name),
    ]
    if "sources" in recipe.needs:
        words += ["--source", ",".join(ask.places.get(c.name, c.name) for c in ask.sources)]
    if "raw text" in recipe.needs:
        words += [w for name in ask.raw for w in ("--raw", f"{name}={ask.places.get(f'raw {name}', name)}")]
    for name, value in ask.amount.items():
        words += [f"--{name}", f"{value:g}"]
    words += ["--seed", str(ask.seed)]
    for key, value in _flat(settings):
        words += ["--set", f"{key}={value}"]
    return shlex.join([*words, "--out", f"{folder}-again"])


def _flat(settings: dict[str, Any], before: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for key, value in settings.items():
        name = f"{before}{key}"
        if isinstance(value, dict) and key != "same":
            rows += _flat(value, f"{name}.")
        else:
            rows.append((name, json.dumps(value) if isinstance(value, (bool, dict, list)) else str(value)))
    return rows


def _points(share: float) -> str:
    return f"{100 * share:.1f}"
