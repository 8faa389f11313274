"""No target labels, but text: the sources' tagger says what the text holds, and another one learns from both."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "source_teacher",
        "the sources, then your text as the first tagger sees it",
        "teacher_student",
        {
            "options": {"rounds": 1, "gold_share": 0.5, "sentences": 8000, "batch_size": 16},
            "train": {"updates": 1000},
        },
        needs=("no labels", "sources", "raw text"),
    )
)
