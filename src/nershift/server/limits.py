"""How much one request, and all of them together, may ask for."""

from __future__ import annotations

from dataclasses import dataclass

MOST_TEXTS = 256  # texts or sentences of a request to tag
MOST_CHARACTERS = 100_000  # of one text
MOST_TOKENS = 2_000  # of one tokenised sentence
MOST_LETTERS = 200  # of one token
MOST_LABELLED = 1_000  # sentences of one adaptation or export
MOST_SPANS = 500  # entities of one labelled sentence


@dataclass(frozen=True)
class Limits:
    """What an operator may set; memory that requests can claim is bounded by these."""

    body_bytes: int = 2_000_000  # → 413
    characters: int = 200_000  # of all texts of one request → 422
    queue: int = 256  # requests waiting to be tagged → 429
    queue_characters: int = 2_000_000  # and their characters together → 429
    seconds: float = 30.0  # until an answer → 503
    batch_requests: int = 64  # tagged together
    batch_characters: int = 50_000
    versions: int = 200  # kept on disk → 409
    loaded: int = 3  # versions in memory
    jobs: int = 50  # remembered
    train_seconds: float = 40.0  # of one adaptation, cross-validation apart
