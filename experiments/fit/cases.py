"""The situations that `nershift fit` is judged in, and what every recipe has to do in them."""

from __future__ import annotations

from dataclasses import dataclass

from experiments.cells import Cell
from experiments.few.tables import SOURCES
from experiments.table import entry
from nershift.auto.recipe import RECIPES, Recipe
from nershift.config import merge

SEED = 1  # which also draws the labels
_SHARES_SOURCES = ("finetune", "source_only", "selftrain", "teacher_student")  # what they learn of sources is the same


@dataclass(frozen=True)
class Case:
    """A situation to judge the choice in.

    Attributes:
        advice: the recipe that docs/which.md names for it.
        first_advice: the one that the README named before there was a fit; empty: it named none for such targets;
            where two of its lines fitted, the one that does better.
        fresh: added when the rules of fit were fixed, judged once, and nothing was changed after.
    """

    target: str
    labels: int
    sources: tuple[str, ...]
    encoder: str
    minutes: float
    advice: str
    first_advice: str = "auto_datnet"
    raw: str = ""
    fresh: bool = False

    @property
    def name(self) -> str:
        sources = " and ".join(self.sources) or "no source"
        text = ", text" if self.raw else ""
        encoder = "no encoder" if self.encoder == "none" else self.encoder
        return f"{self.target}, {self.labels} labels, {sources}{text}, {encoder}"

    def recipes(self) -> dict[str, Recipe]:
        """Those that could be chosen."""
        has = {"labels" if self.labels else "no labels"}
        has |= {
            need
            for need, there in (("sources", self.sources), ("raw text", self.raw), ("encoder", self.encoder != "none"))
            if there
        }
        return {name: recipe for name, recipe in RECIPES.items() if has.issuperset(recipe.needs)}

    def cell(self, recipe: Recipe) -> Cell:
        """The run of a recipe, with the labels and the seed that a fit has."""
        return entry(
            recipe.method,
            self.target,
            self.sources if "sources" in recipe.needs else (),
            merge({"preset": "default", "selection": "last"}, recipe.settings_for(self.encoder)),
            shots=self.labels or None,
            raw=(("target", self.raw),) if "raw text" in recipe.needs else (),
            row=recipe.name,
            joint=recipe.method not in _SHARES_SOURCES or "sources" not in recipe.needs,
        )


CASES = (
    Case("crossner_music", 50, SOURCES, "none", 3, "finetune"),
    Case("wnut2016", 50, SOURCES, "none", 3, "finetune"),
    Case("mit_movie", 50, SOURCES, "none", 4, "target_only", ""),
    Case("crossner_music", 50, ("wikigold",), "none", 3, "finetune"),
    Case("crossner_music", 50, ("wikigold",), "minilm", 10, "encoder_target_only", "encoder_finetune"),
    Case("bionlp13cg", 10, SOURCES, "none", 4, "target_only", ""),
    Case("crossner_politics", 10, SOURCES, "none", 4, "finetune"),
    Case("re3d", 200, SOURCES, "none", 4, "finetune", "finetune"),
    Case("mit_restaurant", 200, SOURCES, "none", 4, "target_only", "finetune"),
    Case("cbs_scitech", 0, SOURCES, "none", 4, "selftrain", "selftrain", "raw_abc_science@4000"),
    Case("mit_movie", 10, (), "minilm", 7, "encoder_target_only", ""),
    Case("sec_filings", 1000, SOURCES, "none", 6, "target_only"),
    # What else the table of docs/which.md has of 50 and 200 sentences, by the same two sources.
    Case("crossner_politics", 50, SOURCES, "none", 4, "finetune", fresh=True),
    Case("re3d", 50, SOURCES, "none", 4, "finetune", fresh=True),
    Case("mit_restaurant", 50, SOURCES, "none", 4, "target_only", "", fresh=True),
    Case("bionlp13cg", 50, SOURCES, "none", 4, "target_only", "", fresh=True),
    Case("sec_filings", 50, SOURCES, "none", 4, "target_only", fresh=True),
    Case("crossner_politics", 200, SOURCES, "none", 4, "finetune", "finetune", fresh=True),
    Case("mit_movie", 200, SOURCES, "none", 4, "target_only", "finetune", fresh=True),
    Case("bionlp13cg", 200, SOURCES, "none", 4, "target_only", "finetune", fresh=True),
    Case("wnut2016", 200, SOURCES, "none", 4, "finetune", "finetune", fresh=True),
    Case("sec_filings", 200, SOURCES, "none", 4, "target_only", "finetune", fresh=True),
)
