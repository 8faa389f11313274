"""No target labels: a pretrained encoder and the sources."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "encoder_source_only",
        "a pretrained encoder and the sources alone",
        "source_only",
        needs=("no labels", "sources", "encoder"),
    )
)
