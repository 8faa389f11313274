"""No target labels, but text, perhaps of another language: shared word vectors, then the text as the tagger sees it."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "vectors_teacher",
        "a small tagger with the word vectors of a pretrained encoder, on the sources, then on your text as it sees it",
        "teacher_student",
        {
            "options": {"rounds": 1, "gold_share": 0.5, "sentences": 8000, "batch_size": 16},
            "train": {"updates": 1000},
        },
        needs=("no labels", "sources", "raw text", "encoder"),
        encoder_as="vectors",
    )
)
