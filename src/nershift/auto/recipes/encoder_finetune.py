"""A pretrained encoder, the sources first, then the target."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "encoder_finetune",
        "a pretrained encoder, the sources first, then your labels",
        "finetune",
        needs=("labels", "sources", "encoder"),
    )
)
