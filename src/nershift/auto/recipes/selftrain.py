"""No target labels, but text: the sources' tagger labels the text and learns from what it is sure of."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "selftrain",
        "the sources, then your text with the labels that the tagger is sure of",
        "selftrain",
        needs=("no labels", "sources", "raw text"),
    )
)
