"""No target labels: the sources' tagger as it is."""

from nershift.auto.recipe import Recipe, register

register(Recipe("source_only", "the sources alone", "source_only", needs=("no labels", "sources")))
