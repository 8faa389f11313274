"""What evidence says: gains are found whatever the levels, situations unlike this one say little, shuffles mislead."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fit_facts import SMALL, made_up, situation
from nershift.auto.evidence import Knowledge, Result, read_evidence
from nershift.auto.recipe import RECIPES
from nershift.auto.situation import Situation


def test_gains_are_found_where_situations_lack_recipes() -> None:
    """The plain mean over runs would call the recipe that only ran on easy targets the best."""
    rows = made_up({"a": 0.0, "b": 0.10})
    easy = [Result("c", f"e{i}", 50, 0.5, "", 0.0, 0.9 - 0.05) for i in range(8)]
    easy += [Result("a", f"e{i}", 50, 0.5, "", 0.0, 0.9) for i in range(8)]
    known = Knowledge([*rows, *easy])
    a, b, c = (known.expect(name, situation()).gain for name in "abc")
    assert b - a == pytest.approx(0.10, abs=0.02)
    assert c - a == pytest.approx(-0.05, abs=0.02)


def test_without_evidence_a_recipe_promises_nothing_and_is_doubtful() -> None:
    known = Knowledge(made_up({"a": 0.0, "b": 0.1}))
    unknown, seen = known.expect("never run", situation()), known.expect("b", situation())
    assert unknown.gain == 0.0
    assert unknown.doubt > seen.doubt
    assert Knowledge([]).expect("a", situation()).gain == 0.0
    assert Knowledge([]).typical("a", situation()) is None


def test_situations_that_are_unlike_this_one_say_less() -> None:
    few = made_up({"a": 0.0, "b": 0.1}, labels=50)
    many = made_up({"a": 0.1, "b": 0.0}, labels=5000)
    known = Knowledge([*few, *many])
    here, there = situation(labelled=50), situation(labelled=5000)
    assert known.expect("b", here).gain > known.expect("a", here).gain
    assert known.expect("b", there).gain < known.expect("a", there).gain


def test_runs_across_languages_say_little_of_one_language() -> None:
    rows = made_up({"a": 0.0, "b": 0.1})
    abroad = [replace(row, foreign=True) for row in made_up({"a": 0.1, "b": 0.0})]
    known = Knowledge([*rows, *abroad])
    for language, better, worse in (("en", "b", "a"), ("es", "a", "b")):
        here = situation(language=language)
        assert here.foreign == (language == "es")
        assert known.expect(better, here).gain > known.expect(worse, here).gain
    assert not situation(language="").foreign


def test_seconds_grow_with_the_encoder() -> None:
    known = Knowledge(made_up({"a": 0.0, "b": 0.1}, millions=10.6, seconds=100.0))
    assert known.seconds("a", situation(encoder=SMALL)) == pytest.approx(100)
    assert known.seconds("a", situation(encoder=replace(SMALL, millions=106.0))) == pytest.approx(1000)
    assert known.seconds("never run", situation()) is None


def test_twice_the_labels_is_the_slope_of_curves() -> None:
    rows = [
        Result("a", f"t{t}", n, 0.5, "", 0.0, 0.2 + 0.05 * i)
        for t in range(3)
        for i, n in enumerate((25, 50, 100, 200))
    ]
    found = Knowledge(rows).twice_the_labels("a", situation())
    assert found is not None
    assert found[0] == pytest.approx(0.05)
    assert found[1] == pytest.approx(0.0, abs=1e-9)
    assert Knowledge(rows).twice_the_labels("b", situation()) is None


def best(known: Knowledge, here: Situation, able: object) -> str:
    return max(able, key=lambda name: known.expect(name, here).gain)  # type: ignore[call-overload, no-any-return]


def situations(rows: list[Result]) -> dict[tuple[str, int], Situation]:
    return {
        row.situation: situation(
            labelled=row.labels,
            shared=row.shared,
            encoder=replace(SMALL, millions=row.millions or 10.6),
            language="es" if row.foreign else "en",
        )
        for row in rows
    }


def regret(
    results: Sequence[Result],
    choose: Callable[[Knowledge, Situation, Sequence[str]], str],
    situations: Mapping[Any, Situation],
) -> dict[Any, float]:
    """For each situation with several recipes: how far the chosen one is below the best, with that corpus left out."""
    grouped = defaultdict[Any, dict[str, float]](dict)
    for row in results:
        grouped[row.situation][row.recipe] = row.f1
    lost = {}
    for key, scores in grouped.items():
        if len(scores) > 1 and key in situations:
            known = Knowledge([row for row in results if row.target != key[0]])
            lost[key] = max(scores.values()) - scores[choose(known, situations[key], sorted(scores))]
    return lost


def test_shuffled_evidence_raises_the_regret() -> None:
    """Of the evidence in the package, each corpus left out in turn: the choice is made by what the file says."""
    rows = read_evidence()
    honest = regret(rows, best, situations(rows))
    mean = sum(honest.values()) / len(honest)
    rng, shuffled = random.Random(0), []
    for _ in range(5):
        names = [row.recipe for row in rows]
        rng.shuffle(names)
        mixed = [replace(row, recipe=name) for row, name in zip(rows, names, strict=True)]

        def misled(known: Knowledge, here: Situation, able: object, mixed: list[Result] = mixed) -> str:
            targets = {row.target for row in known.results}
            return best(Knowledge([row for row in mixed if row.target in targets]), here, able)

        lost = regret(rows, misled, situations(rows))
        shuffled.append(sum(lost.values()) / len(lost))
    assert mean < 0.75 * min(shuffled), (mean, shuffled)


def test_the_package_has_evidence_for_recipes_that_exist() -> None:
    rows = read_evidence()
    assert len(rows) > 150
    assert {row.recipe for row in rows} <= set(RECIPES)
    assert all(0 <= row.f1 <= 1 and 0 <= row.shared <= 1 and row.seconds >= 0 for row in rows)
    target = rows[0].target
    assert target not in {row.target for row in read_evidence(without=[target])}
