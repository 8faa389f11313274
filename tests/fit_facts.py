"""A situation, and evidence made up of it: recipes with known gains."""

from __future__ import annotations

import random
from typing import Any

from nershift.auto.encoders import Encoder
from nershift.auto.evidence import Result
from nershift.auto.situation import Situation, SourceFacts

SMALL = Encoder("small", "sentence-transformers/all-MiniLM-L6-v2", 10.6)
SOURCE = SourceFacts("news", 1000, {"person": "PER"}, language="en")


def situation(**more: Any) -> Situation:
    values: dict[str, Any] = {
        "target": "clinic",
        "labelled": 50,
        "mentions": {"person": 40, "drug": 40},
        "types": ("drug", "person"),
        "dev": 0,
        "test": 100,
        "sources": (SOURCE,),
        "shared": 0.5,
        "raw": 0,
        "tokens": 20.0,
        "cores": 2,
    }
    return Situation(**{**values, **more})


def made_up(gains: dict[str, float], targets: int = 8, seed: int = 0, noise: float = 0.0, **more: Any) -> list[Result]:
    """Runs of recipes on targets of any difficulty; F1 is difficulty + gain."""
    rng = random.Random(seed)
    rows = []
    for number in range(targets):
        level = rng.uniform(0.2, 0.7)
        for name, gain in gains.items():
            values = {"labels": 50, "shared": 0.5, "sources": "news", "millions": 0.0, "seconds": 20.0} | more
            rows.append(Result(name, f"t{number}", f1=level + gain + rng.gauss(0, noise), **values))
    return rows
