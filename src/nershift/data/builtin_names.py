"""Makers of invented names. Each name is assembled from parts, so most names of a test split are new to a tagger.

Kinds of names share their parts on purpose: *Harnford* may be a town, a surname or a team, *Zelatin* a drug
or a firm.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from importlib.resources import files

import yaml

_WORDS = yaml.safe_load(files("nershift.data").joinpath("builtin.yaml").read_text("utf-8"))
PARTS: dict[str, tuple[str, ...]] = {key: tuple(words.split()) for key, words in _WORDS["parts"].items()}
FORMS: dict[str, tuple[str, ...]] = {domain: tuple(forms) for domain, forms in _WORDS["forms"].items()}
KNOWN_SHARE = 0.3  # of the names; the others are new
KNOWN_SIZE = 60  # names of a kind that all domains know


class Names:
    """Makes names; ``world`` holds the well-known ones, which recur within and across domains."""

    def __init__(self, rng: random.Random, world: dict[str, list[str]] | None = None) -> None:
        self.rng = rng
        self.world = world or {}

    def make(self, kind: str) -> str:
        """One name or filler of a kind, tokens separated by spaces."""
        known = self.world.get(kind)
        if known and self.rng.random() < KNOWN_SHARE:
            # the lower of two positions: early names are met more often than late ones
            return known[min(self.rng.randrange(len(known)), self.rng.randrange(len(known)))]
        if kind in MAKERS:
            return MAKERS[kind](self)
        return self.part(kind)

    def part(self, key: str) -> str:
        return self.rng.choice(PARTS[key])

    def stem(self) -> str:
        return self.part("onset") + self.part("vowel") + self.part("coda")

    def one_of(self, *makers: Callable[[], str]) -> str:
        return self.rng.choice(makers)()

    def number(self, low: int, high: int) -> str:
        return str(self.rng.randint(low, high))


def _place(n: Names) -> str:
    town = n.stem() + n.part("place_end")
    return n.one_of(
        lambda: town,
        lambda: town,
        lambda: town,
        lambda: n.stem() + "ia",
        lambda: f"{n.rng.choice(['Port', 'Upper', 'Lake', 'East', 'New'])} {n.stem()}",
        lambda: f"{n.stem()} {n.rng.choice(['Bay', 'Falls', 'Heath', 'Island'])}",
    )


def _given(n: Names) -> str:
    return n.part("given_start") + n.part("given_mid") + n.part("given_end")


def _person(n: Names) -> str:
    given, surname = n.make("given"), n.make("surname")
    return n.one_of(
        lambda: f"{given} {surname}",
        lambda: f"{given} {surname}",
        lambda: f"{given} {surname}",
        lambda: f"{given[0]}. {surname}",
        lambda: f"{given} {n.part('onset')[0]}. {surname}",
        lambda: f"{given} {n.rng.choice(['van', 'de', 'al'])} {surname}",
    )


def _brand(n: Names) -> str:
    return n.part("brand_start") + n.part("brand_mid") + n.part("brand_end")


def _firm(n: Names) -> str:
    return n.one_of(
        lambda: f"{n.make('surname')} & {n.rng.choice(['Sons', 'Daughters', n.make('surname')])}",
        lambda: f"{n.make('surname')} {n.part('firm_kind')}",
        lambda: f"{n.make('brand')} {n.part('firm_kind')}",
        lambda: f"Bank of {n.make('place')}",
    )


def _organisation(n: Names) -> str:
    return n.one_of(
        lambda: n.make("brand"),
        lambda: n.make("firm"),
        lambda: n.make("body"),
        lambda: f"Ministry of {n.part('ministry')}",
        lambda: "".join(n.part("onset")[0] for _ in range(n.rng.choice((3, 3, 4)))),
    )


def _product(n: Names) -> str:
    return n.one_of(
        lambda: n.make("brand"),
        lambda: f"{n.make('brand')} {n.rng.choice(['Pro', 'Mini', 'Plus', 'Duo'])}",
        lambda: f"{n.make('brand')} {n.number(1, 90)}0",
        lambda: f"{n.make('surname')} {n.rng.choice(['Kettle', 'Pan', 'Grill', 'Phone', 'Watch'])}",
    )


def _drug(n: Names) -> str:
    name = n.part("brand_start") + n.part("brand_mid") + n.part("drug_end")
    return n.rng.choice((name, name.lower()))


def _condition(n: Names) -> str:
    illness = n.stem().lower() + n.part("illness")
    return n.one_of(
        lambda: illness,
        lambda: f"{n.rng.choice(['acute', 'chronic', 'left', 'severe', 'type 2'])} {illness}",
        lambda: f"{n.make('surname')} {n.rng.choice(['syndrome', 'disease', 'palsy'])}",
        lambda: n.rng.choice(("gout", "low mood", "back pain", "asthma", "fever", "high BP", "HTN", "DM")),
    )


def _dose(n: Names) -> str:
    return n.one_of(
        lambda: f"{n.number(1, 50)}0 mg",
        lambda: f"{n.number(1, 9)}.{n.number(1, 9)} ml",
        lambda: f"{n.number(2, 99)}mg",
        lambda: f"{n.rng.choice(['one', 'two', 'half a', '2'])} {n.rng.choice(['tablet', 'tablets', 'puffs'])}",
    )


def _statute(n: Names) -> str:
    act = f"{n.part('statute_noun')} {n.rng.choice(['Act', 'Code', 'Order', 'Regulations'])} {n.make('year')}"
    return n.one_of(
        lambda: f"the {act}",
        lambda: f"{n.rng.choice(['section', 'Article', 'rule'])} {n.number(2, 90)} of the {act}",
        lambda: f"{n.rng.choice(['s.', 'Art.', 'section'])} {n.number(2, 90)} ( {n.number(1, 9)} )",
        lambda: f"the {n.make('surname')} {n.rng.choice(['Act', 'Code'])}",
    )


def _case(n: Names) -> str:
    first = n.rng.choice((n.make("surname"), n.make("surname"), n.make("firm"), "R"))
    return n.one_of(
        lambda: f"{first} v. {n.make('surname')}",
        lambda: f"{first} v. {n.make('body')}",
        lambda: f"Re {n.make('surname')}",
    )


def _ingredient(n: Names) -> str:
    noun = n.part("ingredient_noun")
    return n.rng.choice((noun, f"{n.part('ingredient_mod')} {noun}", f"{n.make('place')} {noun}"))


def _dish(n: Names) -> str:
    noun = n.part("dish_noun")
    return n.one_of(
        lambda: f"{n.make('place')} {noun}",
        lambda: f"{n.make('surname')} {noun}",
        lambda: f"{n.part('ingredient_noun')} {noun}",
        lambda: f"{n.part('ingredient_mod')} {n.part('ingredient_noun')} {noun}",
        lambda: (n.stem() + n.rng.choice(("ata", "elli", "oush", "enka"))).lower(),
    )


def _team(n: Names) -> str:
    return n.one_of(
        lambda: f"{n.make('place')} {n.part('club_kind')}",
        lambda: f"{n.make('place')} {n.part('club_kind')}",
        lambda: f"{n.make('brand')} {n.make('place')}",
        lambda: f"{n.stem()}ers",
    )


def _event(n: Names) -> str:
    return n.one_of(
        lambda: f"{n.make('place')} {n.part('meeting_kind')}",
        lambda: f"{n.make('surname')} {n.part('meeting_kind')}",
        lambda: f"{n.rng.choice(['Spring', 'Harvest', 'Lantern', 'Winter'])} {n.part('meeting_kind')}",
        lambda: n.make("contest"),
    )


def _contest(n: Names) -> str:
    return f"{n.rng.choice((n.make('place'), n.make('brand'), n.make('surname')))} {n.part('contest_kind')}"


def _hotel(n: Names) -> str:
    name = n.rng.choice((n.make("surname"), n.make("place"), n.make("given")))
    return n.rng.choice((f"{name} {n.part('hotel_kind')}", f"{name} {n.part('hotel_kind')}", f"Hotel {name}", name))


def _money(n: Names) -> str:
    return n.one_of(
        lambda: f"£ {n.number(1, 90)}.{n.number(1, 9)} {n.rng.choice(['million', 'billion', 'm'])}",
        lambda: f"{n.number(2, 900)} {n.rng.choice(['crowns', 'dollars', 'marks'])}",
        lambda: f"EUR {n.number(2, 900)}",
        lambda: f"$ {n.number(1, 9)},{n.number(100, 999)}",
    )


def _vehicle(n: Names) -> str:
    letters = n.part("onset")[0] + n.part("onset")[0]
    return n.one_of(
        lambda: f"{letters}{n.number(10, 999)}",
        lambda: f"{letters} {n.number(10, 999)}",
        lambda: f"{n.rng.choice(['Line', 'Bus', 'Tram'])} {n.number(1, 40)}",
        lambda: f"{n.make('place')} Express",
    )


MAKERS: dict[str, Callable[[Names], str]] = {
    "place": _place,
    "surname": lambda n: n.stem() + n.part("surname_end"),
    "given": _given,
    "person": _person,
    "brand": _brand,
    "firm": _firm,
    "body": lambda n: f"{n.rng.choice((n.make('place'), n.make('surname')))} {n.part('body_kind')}",
    "hospital": lambda n: f"{n.rng.choice((n.make('place'), n.make('surname')))} {n.part('hospital_kind')}",
    "body_word": lambda n: n.rng.choice(("council", "magistrates", "harbour board")),
    "organisation": _organisation,
    "courthouse": lambda n: f"{n.make('place')} {n.rng.choice(['Crown Court', 'County Court', 'Tribunal'])}",
    "product": _product,
    "drug": _drug,
    "assay": _drug,
    "condition": _condition,
    "dose": _dose,
    "statute": _statute,
    "case": _case,
    "ingredient": _ingredient,
    "dish": _dish,
    "team": _team,
    "event": _event,
    "contest": _contest,
    "hotel": _hotel,
    "sight": lambda n: f"{n.rng.choice((n.make('place'), n.make('surname')))} {n.part('sight_kind')}",
    "vehicle": _vehicle,
    "money": _money,
    "demonym": lambda n: n.stem() + n.rng.choice(("ish", "ian", "ese")),
    "number": lambda n: n.number(1, 60),
    "year": lambda n: n.number(1950, 2029),
}


def well_known(seed: int) -> dict[str, list[str]]:
    """The names that recur: some surnames are also towns, some brands also drugs."""
    names = Names(random.Random(f"world:{seed}"))
    world = {kind: [names.make(kind) for _ in range(KNOWN_SIZE)] for kind in ("place", "given", "surname", "brand")}
    world["drug"] = [names.make("drug") for _ in range(KNOWN_SIZE)]
    towns = [name for name in world["place"] if " " not in name]
    world["surname"][::5] = [names.rng.choice(towns) for _ in world["surname"][::5]]
    world["drug"][::6] = [names.rng.choice(world["brand"]) for _ in world["drug"][::6]]
    return world
