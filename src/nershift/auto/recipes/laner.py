"""Label names as knowledge, on a pretrained encoder: the best single model on CrossNER; long, so for a GPU."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "laner",
        "a pretrained encoder that reads label names, the sources first, then your labels",
        "laner",
        {"preset": "tuned", "train": {"model_soup": 3}},
        needs=("labels", "sources", "encoder", "gpu"),
    )
)
