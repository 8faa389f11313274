"""Few labels and text: a tagger of the labels says what the text holds, and another one learns from both."""

from nershift.auto.recipe import Recipe, register

register(
    Recipe(
        "teacher_student",
        "your labels, then your text as the first tagger sees it",
        "teacher_student",
        {
            "options": {"rounds": 3, "sentences": 5000, "batch_size": 16, "teacher_updates": 1000},
            "train": {"updates": 1000},
        },
        needs=("labels", "raw text"),
    )
)
