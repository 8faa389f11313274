"""How much one request, and all of them together, may ask for, and how long each part may take."""

from __future__ import annotations

from dataclasses import dataclass

MOST_TEXTS = 256  # texts or sentences of a request to tag
MOST_CHARACTERS = 100_000  # of one text
MOST_TOKENS = 2_000  # of one tokenised sentence
MOST_LETTERS = 200  # of one token
MOST_LABELLED = 1_000  # sentences of one adaptation or export
MOST_LABELLED_TOKENS = 100_000  # of them together
MOST_SPANS = 500  # entities of one labelled sentence
MOST_RECORDS = 500  # labels that a browser sends at once
MOST_TYPES = 500  # of all annotators
MOST_GUIDELINE = 1_000  # characters
MOST_ANNOTATORS = 50
MOST_LABEL_BYTES = 100_000_000  # of all annotators together
MOST_FILES = 200  # in the queue
MOST_FILE_SENTENCES = 5_000
MOST_FILE_TOKENS = 200_000  # of one file
MOST_PARTS = 200  # files of one upload


@dataclass(frozen=True)
class Limits:
    """What an operator may set; memory that requests can claim is bounded by these.

    The groups stand in the order in which a request meets them.
    """

    # A connection, before anything is known of who asks.
    connections: int = 512  # then those that owe a request for longest make room
    head_bytes: int = 32_768  # of the first line and the headers → 431
    headers: int = 100  # → 431
    pipelined: int = 8  # requests on a connection that are not answered yet
    head_seconds: float = 10.0  # until the head of a request is there → 408
    rest_seconds: float = 5.0  # for the rest of a request that has been refused
    idle_seconds: float = 30.0  # between two requests
    write_seconds: float = 60.0  # for a client to take an answer

    # Its token.
    guesses: int = 8  # of an address that has sent wrong ones, which wait to be looked at → 429
    guess_seconds: float = 2.0  # that each of them waits at most
    guess_forgotten: float = 60.0  # seconds without a wrong one

    # A body.
    body_bytes: int = 2_000_000  # → 413
    body_seconds: float = 20.0  # until it is there → 408
    held_bytes: int = 32_000_000  # bodies of all requests together; then those that arrive for longest make room → 503
    values: int = 100_000  # lists, objects and what is in them → 413

    # Tagging.
    tokens: int = 50_000  # of one request → 413
    queue: int = 256  # requests waiting to be tagged → 429
    queue_tokens: int = 250_000  # and their tokens together → 429
    seconds: float = 30.0  # until an answer → 503
    batch_requests: int = 64  # tagged together
    batch_tokens: int = 4_096

    # Files for the queue, read by a process of its own.
    reads: int = 8  # that wait → 429
    read_seconds: float = 20.0  # → 422
    read_bytes: int = 2_000_000_000  # of memory; also stops what unpacks without end → 422
    unpacked_mb: int = 50  # that may come out of a compressed file → 422

    # Versions and adaptation.
    versions: int = 200  # kept on disk → 409
    loaded: int = 3  # versions in memory
    jobs: int = 50  # remembered
    train_seconds: float = 40.0  # of one adaptation, cross-validation apart
    fit_minutes: float = 3.0  # after it, for other recipes; 0: never
    fit_from: int = 40  # labelled sentences from which on these can be told apart
    silent_seconds: float = 180.0  # that its process may say nothing; then it is ended
    adapt_seconds: float = 1_200.0  # of one adaptation with everything; then it is ended
