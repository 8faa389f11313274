"""Recipes: ready-made ways to a tagger, each a method with settings, that `nershift fit` chooses among.

A recipe is one file in :mod:`nershift.auto.recipes`, or one registered value of another package (entry point group
``nershift.recipes``). Nothing else lists it: what is known about it comes from the evidence under its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nershift.config import merge
from nershift.registry import Registry

Need = Literal["labels", "no labels", "sources", "raw text", "encoder", "tagger", "gpu"]


@dataclass(frozen=True)
class Recipe:
    """A method with settings, and what it needs to make sense.

    Args:
        name: under which evidence and reports speak of it.
        says: what it does, as the end of "this recipe trains ...".
        needs: without one of these it is no candidate.
        encoder_as: what becomes of the encoder: it is trained whole, or a recurrent tagger takes its word vectors only.

    Example:
        >>> recipe = Recipe("mine", "the target alone, twice as long", "target_only", {"train": {"passes": 40}})
        >>> recipe.settings_for(None)["train"]
        {'passes': 40}
    """

    name: str
    says: str
    method: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[Need, ...] = ("labels",)
    encoder_as: Literal["whole", "vectors"] = "whole"

    @property
    def transformer(self) -> bool:
        """Does it train a transformer?"""
        return "encoder" in self.needs and self.encoder_as == "whole"

    def settings_for(self, encoder: str | None) -> dict[str, Any]:
        """The settings of a run, with the pretrained encoder in them where the recipe wants one."""
        values: dict[str, Any] = dict(self.settings)
        if self.transformer:
            values = merge({"encoder": {"kind": "transformer", "transformer": {"name": encoder}}}, values)
        elif "encoder" in self.needs:  # vectors that stay as they are, so that unseen words lie where they did
            words = {"subwords": encoder, "train": False, "lower": False}
            values = merge({"encoder": {"words": words}}, values)
        return values


RECIPES = Registry[Recipe]("recipe", "nershift.recipes", "nershift.auto.recipes")


def register(recipe: Recipe) -> Recipe:
    """Make a recipe a candidate of `nershift fit`.

    Example:
        >>> spans = {"head": {"kind": "span"}}
        >>> register(Recipe("alone_span", "your labels alone, with a span head", "target_only", spans)).name
        'alone_span'
        >>> "alone_span" in RECIPES
        True
    """
    return RECIPES.register(recipe.name)(recipe)
