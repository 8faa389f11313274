"""What `nershift fit` is going to do: which recipes race, on what, and how long each takes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nershift.auto.costs import Cost, Speed, cost, in_words
from nershift.auto.evidence import Expected, Knowledge
from nershift.auto.recipe import RECIPES, Recipe
from nershift.auto.situation import Situation
from nershift.errors import SetupError

FOLDS = 5
_FINISH = 6.0  # seconds for scores and the report
_RACE = 0.75  # share of the time that a first round may take
_ONE = 0.7  # share of the time that one recipe may take, judged once and trained: estimates err
_DEAR, _WORTH = 0.5, 0.01  # one that takes more than such a share has to promise more than a cheaper one
_DOUBT = 0.5  # a recipe that we know little of is tried before one that is surely worse


@dataclass(frozen=True)
class Candidate:
    """A recipe that races.

    Attributes:
        typical: F1 that it reached in situations like this, as a fraction of 1.
    """

    recipe: Recipe
    expected: Expected
    cost: Cost
    typical: float | None

    @property
    def promise(self) -> float:
        return self.expected.gain + _DOUBT * self.expected.doubt


@dataclass(frozen=True)
class Plan:
    """The race before it begins.

    Attributes:
        trials: parts of the labels that are held out in turn (a dev split is one); 0: there is nothing to judge on.
        places: trainings at once, each with ``threads``.
        first: the candidate that is trained before the race, so that there is a tagger soon.
        left_out: recipes that could have raced, and why they do not.
    """

    situation: Situation
    minutes: float
    trials: int
    places: int
    threads: int
    candidates: tuple[Candidate, ...]
    first: str
    left_out: tuple[tuple[str, str], ...] = ()

    def candidate(self, name: str) -> Candidate:
        return next(c for c in self.candidates if c.recipe.name == name)

    def describe(self) -> list[str]:
        """The plan in lines for people."""
        lines = [*self.situation.describe(), ""]
        judge = {0: "nothing to judge on: the evidence of other corpora decides", 1: "one part of the labels"}
        on = judge.get(self.trials, f"{self.trials} parts of the labels, each held out in turn")
        if self.situation.dev:
            on = f"the dev split ({self.situation.dev} sentences)"
        elif not self.situation.labelled and self.trials:
            on = f"each of {self.trials} sources in turn, which plays the target"
        lines.append(f"plan     {in_words(60 * self.minutes)}; {len(self.candidates)} recipes; judged on {on}")
        width = max((len(c.recipe.name) for c in self.candidates), default=0)
        for c in self.candidates:
            f1 = f"F1 about {100 * c.typical:.0f} elsewhere" if c.typical is not None else "no evidence yet"
            lines.append(f"  {c.recipe.name:<{width}}  {c.recipe.says}; {in_words(c.cost.alone)}; {f1}")
        lines += [f"  {name}: left out, {why}" for name, why in self.left_out]
        return lines

    def to_dict(self) -> dict[str, Any]:
        return {
            "situation": self.situation.to_dict(),
            "minutes": self.minutes,
            "trials": self.trials,
            "places": self.places,
            "threads": self.threads,
            "first": self.first,
            "candidates": [
                {"recipe": c.recipe.name, "expected": asdict(c.expected), "cost": asdict(c.cost), "typical": c.typical}
                for c in self.candidates
            ],
            "left_out": [list(row) for row in self.left_out],
        }

    @classmethod
    def from_dict(cls, row: dict[str, Any], situation: Situation) -> Plan:
        candidates = tuple(
            Candidate(RECIPES[c["recipe"]], Expected(**c["expected"]), Cost(**c["cost"]), c["typical"])
            for c in row["candidates"]
        )
        values = {name: row[name] for name in ("minutes", "trials", "places", "threads", "first")}
        return cls(situation, **values, candidates=candidates, left_out=tuple((a, b) for a, b in row["left_out"]))


def make_plan(
    here: Situation,
    known: Knowledge,
    speed: Speed,
    minutes: float,
    places: int,
    threads: int,
    recipes: Iterable[str] | None = None,
) -> Plan:
    """Choose the recipes that race.

    Args:
        recipes: those to consider; by default all that are known.
    """
    able = [RECIPES[name] for name in (recipes if recipes is not None else RECIPES) if here.meets(RECIPES[name].needs)]
    if not able:
        raise _nothing(here)
    trials = 1 if here.dev else min(FOLDS, here.labelled) if here.labelled else _usable(here)
    trials = trials if trials > 1 or here.dev else 0
    seconds = 60 * minutes
    all_of_them = [
        Candidate(r, known.expect(r.name, here), cost(r, here, known, speed), known.typical(r.name, here)) for r in able
    ]
    ordered = sorted(all_of_them, key=lambda c: (-c.promise, c.recipe.name))
    first = min(ordered, key=lambda c: (c.cost.alone, c.recipe.name))
    chosen, left_out = _that_fit(ordered, first, seconds - _FINISH, places, trials)
    return Plan(here, minutes, trials, places, threads, tuple(chosen), first.recipe.name, tuple(left_out))


def _that_fit(
    ordered: Sequence[Candidate], first: Candidate, seconds: float, places: int, trials: int
) -> tuple[list[Candidate], list[tuple[str, str]]]:
    """The most promising ones that the time allows to judge and to train; the first one is always among them."""
    chosen, left_out, spent = [first], [], first.cost.alone
    for candidate in ordered:
        if candidate is first:
            continue
        needed = candidate.cost.alone + (candidate.cost.train if trials else 0.0)
        round_one = candidate.cost.alone if trials else 0.0
        cheaper = [c for c in ordered if c.cost.alone < candidate.cost.alone]
        if needed > _ONE * seconds:
            enough = math.ceil((needed / _ONE + _FINISH) / 60)
            left_out.append((candidate.recipe.name, f"it needs {in_words(needed)}: --minutes {enough} has room for it"))
        elif needed > _DEAR * seconds and candidate.promise < _WORTH + max(c.promise for c in (*cheaper, first)):
            left_out.append(
                (candidate.recipe.name, f"it needs {in_words(needed)} and promises little more than others")
            )
        elif (spent + round_one) / places > _RACE * seconds:
            left_out.append((candidate.recipe.name, "the time is spent on more promising ones"))
        else:
            chosen.append(candidate)
            spent += round_one
    return sorted(chosen, key=lambda c: (-c.promise, c.recipe.name)), left_out


def _usable(here: Situation) -> int:
    """Sources that can play the target: others have to be left to learn from."""
    able = [s for s in here.sources if s.sentences and s.shared]
    return len(able) if len(able) > 1 else 0


def _nothing(here: Situation) -> SetupError:
    labels = "labelled sentences" if here.labelled else "no labelled sentence"
    return SetupError(
        f"no recipe can do anything with {labels} and {len(here.sources)} sources",
        place="--target",
        expected="labelled sentences in the train split, or sources that share types with the target",
        fix="label some sentences (`nershift serve`), or add --source",
    )
