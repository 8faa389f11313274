"""Plans: what fits the time races, the cheapest is trained first, and recipes are nowhere named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fit_facts import SMALL, made_up, situation
from nershift.auto.costs import Speed, base_cost, cost, in_words
from nershift.auto.evidence import Knowledge, read_evidence
from nershift.auto.plan import Plan, make_plan
from nershift.auto.recipe import RECIPES, Recipe, register
from nershift.auto.situation import look
from nershift.errors import SetupError

KNOWN = Knowledge(read_evidence())


def planned(minutes: float = 30, known: Knowledge = KNOWN, recipes: Any = None, **facts: Any) -> Plan:
    return make_plan(situation(**facts), known, Speed(), minutes, 2, 1, recipes)


def names(plan: Plan) -> list[str]:
    return [c.recipe.name for c in plan.candidates]


@pytest.fixture
def mine() -> Iterator[Recipe]:
    recipe = register(Recipe("mine", "twice as long", "target_only", {"train": {"updates": 2000}}))
    yield recipe
    RECIPES._parts.pop("mine")


def test_recipes_need_what_they_say() -> None:
    assert set(names(planned())) == {"target_only", "finetune", "finetune_long", "auto_datnet"}
    assert names(planned(sources=())) == ["target_only"]
    assert {"encoder_target_only", "encoder_finetune"} <= set(names(planned(minutes=120, encoder=SMALL)))
    zero = names(planned(labelled=0, mentions={}, raw=1000))
    assert set(zero) == {"source_only", "source_only_long", "selftrain", "source_teacher"}
    abroad = names(planned(labelled=0, mentions={}, raw=1000, encoder=SMALL, language="es", minutes=120))
    vectors, whole = ("vectors_source_only", "vectors_teacher"), ("encoder_source_only", "encoder_source_teacher")
    assert set(abroad) == {*zero, *vectors, *whole}


def test_an_encoder_is_trained_whole_or_lends_its_vectors() -> None:
    whole, vectors = (RECIPES[name].settings_for("X")["encoder"] for name in ("encoder_target_only", "vectors_teacher"))
    assert whole == {"kind": "transformer", "transformer": {"name": "X"}}
    assert vectors == {"words": {"subwords": "X", "train": False, "lower": False}}
    here = situation(labelled=0, mentions={}, encoder=SMALL)
    all_of_it, lent = (base_cost(RECIPES[n], here) for n in ("encoder_source_only", "vectors_source_only"))
    assert lent < all_of_it / 5


def test_nothing_can_be_done_without_labels_and_sources() -> None:
    with pytest.raises(SetupError, match="no recipe can do anything"):
        planned(labelled=0, mentions={}, sources=())


def test_what_does_not_fit_is_left_out_with_the_reason() -> None:
    short = planned(minutes=1, encoder=SMALL)
    assert names(short) == ["target_only"]
    why = dict(short.left_out)["encoder_finetune"]
    assert why.startswith("it needs ")
    enough = int(re.search(r"--minutes (\d+) has room", why)[1])  # type: ignore[index]
    reasons = [
        dict(planned(minutes=m, encoder=SMALL).left_out).get("encoder_finetune", "") for m in (enough - 1, enough)
    ]
    assert ["has room" in reason for reason in reasons] == [True, False]
    assert len(names(planned(minutes=60, encoder=SMALL))) > 3


def test_the_first_is_the_cheapest() -> None:
    plan = planned(minutes=60, encoder=SMALL)
    assert plan.first == min(plan.candidates, key=lambda c: c.cost.alone).recipe.name == "target_only"


def test_a_recipe_that_comes_or_goes_changes_the_plan(mine: Recipe) -> None:
    assert "mine" in names(planned())
    assert "finetune" not in names(planned(recipes=["target_only", "mine"]))


def test_evidence_decides_the_order() -> None:
    gains = {"target_only": 0.0, "finetune": 0.2, "finetune_long": 0.1}
    ask = {"recipes": list(gains)}
    assert names(planned(known=Knowledge(made_up(gains)), **ask)) == ["finetune", "finetune_long", "target_only"]
    turned = {name: -gain for name, gain in gains.items()}
    assert names(planned(known=Knowledge(made_up(turned)), **ask)) == ["target_only", "finetune_long", "finetune"]


def test_a_dev_split_is_one_trial_and_few_labels_have_as_many_as_sentences() -> None:
    assert planned(dev=200).trials == 1
    assert planned().trials == 5
    assert planned(labelled=3).trials == 3
    assert planned(labelled=1).trials == 0
    assert planned(labelled=0, mentions={}).trials == 0  # one source: nothing can play the target


def test_a_plan_survives_json() -> None:
    plan = planned(minutes=60, encoder=SMALL)
    assert Plan.from_dict(plan.to_dict(), plan.situation) == plan


def test_lines_for_people() -> None:
    text = "\n".join(planned(minutes=60, encoder=SMALL).describe())
    for part in ("target   clinic", "source   news", "shares 1 of 2 types", "plan     1 h 0 min", "your labels alone"):
        assert part in text


def test_costs_follow_machine_encoder_and_labels() -> None:
    recipe, here = RECIPES["encoder_target_only"], situation(encoder=SMALL)
    plain = cost(recipe, here, Knowledge([]), Speed())
    assert cost(recipe, here, Knowledge([]), Speed(pretrained=2.0)).train > 1.8 * plain.train
    large = replace(here, encoder=replace(SMALL, millions=227.0))
    assert cost(recipe, large, Knowledge([]), Speed()).train > 8 * plain.train
    many = replace(here, labelled=20_000)
    assert cost(recipe, many, Knowledge([]), Speed()).train > 5 * plain.train
    assert plain.pretrain == 0
    assert cost(RECIPES["finetune"], here, Knowledge([]), Speed()).pretrain > 10


def test_our_own_runs_are_foreseen_within_half() -> None:
    """The model of costs against the seconds of the evidence, by recipe."""
    for name in ("target_only", "finetune", "encoder_target_only"):
        rows = [r for r in KNOWN.results if r.recipe == name and r.seconds and r.labels <= 200]
        ratios = []
        for row in rows:
            sources = tuple(replace(s, sentences=15_000) for s in situation().sources)
            here = situation(labelled=row.labels, shared=row.shared, sources=sources, encoder=SMALL)
            ratios.append(cost(RECIPES[name], here, Knowledge([]), Speed()).alone / row.seconds)
        ratios.sort()
        assert 0.5 < ratios[len(ratios) // 2] < 1.6, (name, ratios)


def test_durations() -> None:
    assert [in_words(s) for s in (0.4, 99, 3599, 3600)] == ["0 s", "99 s", "59 min 59 s", "1 h 0 min"]


@pytest.mark.parametrize(
    ("target", "source", "foreign"), [("es", "English", True), ("en", "English", False), ("es", "", False)]
)
def test_languages_are_known_by_any_name(make_corpus: Any, target: str, source: str, foreign: bool) -> None:
    news = replace(make_corpus("news"), language=source)
    here = look(replace(make_corpus("clinic"), language=target), [news], 0, same={}, encoder=None, device="cpu")
    assert here.foreign is foreign
    assert ("language Spanish; sources in English" in here.describe()) is foreign
