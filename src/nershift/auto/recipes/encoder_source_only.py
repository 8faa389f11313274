"""No target labels: a pretrained encoder and the sources."""

from nershift.auto.recipe import Recipe, register

# Sub-word vectors stay as they are, so that words and languages that the sources lack lie where they did.
register(
    Recipe(
        "encoder_source_only",
        "a pretrained encoder and the sources alone",
        "source_only",
        {
            "encoder": {"transformer": {"freeze_embeddings": True}},
            "head": {"kind": "softmax"},
            "pretrain": {"updates": 1300},
        },
        needs=("no labels", "sources", "encoder"),
    )
)
