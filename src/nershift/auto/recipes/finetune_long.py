"""Fine-tuning with four times the usual time on the sources."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "finetune_long",
        "the sources first, for longer, then your labels",
        "finetune",
        {"pretrain": {"updates": 4000}},
        needs=("labels", "sources"),
    )
)
