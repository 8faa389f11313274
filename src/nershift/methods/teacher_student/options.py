"""Settings of teacher and student, and the presets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from nershift.config import merge, setting
from nershift.methods.presets import DEFAULT, DEFAULT_BY_ENCODER, PRESETS


@dataclass(frozen=True)
class TeacherStudentOptions:
    teacher: tuple[str, ...] = setting(
        (),
        "Folders of finished runs that label the text; several are averaged. Empty: what this run itself has learned "
        "from the sources and the target's labels.",
    )
    student: Literal["warm", "fresh"] = setting(
        "warm",
        "Where the student of an own teacher starts: from the teacher's weights, or anew. Beside folders as teachers "
        "it is new unless the run starts from a folder.",
    )
    targets: Literal["soft", "hard"] = setting(
        "soft", "What the student learns: the teacher's probabilities, or the entities that it predicts."
    )
    temperature: float = setting(
        1.0, "Divides the teacher's scores before they become probabilities; below 1 makes it surer.", low=0.01
    )
    sentences: int = setting(20_000, "Most sentences of text to label.", low=2)
    pick: Literal["spread", "similar"] = setting(
        "spread",
        "Which they are, where the text has more. spread: evenly spread over the text. similar: those most like the "
        "labelled sentences of the target (tf-idf).",
    )
    rest_of_train: bool = setting(
        False, "Also read the target's training sentences beyond --shots or --ratio, without their labels."
    )
    keep: float = setting(
        1.0, "Share of the sentences with entities to learn from, the teacher's surest ones; 1: all.", low=0, high=1
    )
    quotas: bool = setting(
        True, "With `keep`, compare each entity with others of its type, so that all types keep alike."
    )
    empty_share: float = setting(
        1.0, "Sentences without entities to learn from, as a share of their proportion in the text.", low=0
    )
    rounds: int = setting(
        1, "Times that the text is labelled; from the second on by the moving average of the student.", low=1
    )
    decay: float = setting(0.99, "Of that moving average, per update.", low=0, high=1)
    gold_share: float = setting(
        0.25,
        "Share of updates that learn from gold labels: the target's or, without any, those of the sources.",
        low=0,
        high=1,
    )
    batch_size: int = setting(32, "Sentences of text per batch.", low=1)
    teacher_updates: int = setting(
        0, "Updates on the target's labels that make the own teacher; 0: by the amount of labels.", low=0
    )
    stop: Literal["auto", "sources", "agreement"] = setting(
        "auto",
        "What selects the weights, and ends training with train.patience. auto: the target's dev split where its "
        "labels are learned, else nothing. sources: their dev splits. agreement: of student and teacher on sentences "
        "held out of the text.",
    )


DEFAULT_STUDENT: dict[str, Any] = merge(DEFAULT, {"train": {"min_updates": 2000, "passes": 2}})
STUDENT_PRESETS = PRESETS | {"default": DEFAULT_STUDENT}
STUDENT_BY_ENCODER = {
    "transformer": merge(DEFAULT_BY_ENCODER["transformer"], {"train": {"min_updates": 1000, "passes": 1}})
}
