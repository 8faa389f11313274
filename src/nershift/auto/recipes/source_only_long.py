"""No target labels: the sources for four times the usual time."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "source_only_long",
        "the sources alone, for longer",
        "source_only",
        {"pretrain": {"updates": 4000}},
        needs=("no labels", "sources"),
    )
)
