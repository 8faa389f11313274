"""Sources and labels in one training, with an adversary between them."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "auto_datnet",
        "the sources and your labels at once, with an adversary that makes them alike",
        "auto-datnet",
        needs=("labels", "sources"),
    )
)
