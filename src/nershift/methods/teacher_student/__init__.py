"""Teacher and student: tagged text as probabilities, for another tagger to learn. See README.md in this folder."""

from nershift.methods.teacher_student import method

__all__ = ["method"]
