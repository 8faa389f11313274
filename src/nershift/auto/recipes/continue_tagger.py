"""A tagger that is there already goes on with the new labels: quick, and best while labels are few."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "continue_tagger",
        "the tagger that you have, on your labels",
        "finetune",
        {"train": {"min_updates": 300, "passes": 10, "schedule": "linear"}},
        needs=("labels", "tagger"),
    )
)
