"""Teacher and student: a tagger, or several, label raw text with their probabilities, and another learns from it."""
