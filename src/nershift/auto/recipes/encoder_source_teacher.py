"""No target labels, but text, perhaps of another language: an encoder, then the text as the first tagger sees it."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "encoder_source_teacher",
        "a pretrained encoder on the sources, then on your text as the first tagger sees it",
        "teacher_student",
        {
            "encoder": {"transformer": {"freeze_embeddings": True}},
            "head": {"kind": "softmax"},
            "pretrain": {"updates": 1300},
            "options": {"sentences": 8000, "batch_size": 32},
            "train": {"updates": 1000},
        },
        needs=("no labels", "sources", "raw text", "encoder"),
    )
)
