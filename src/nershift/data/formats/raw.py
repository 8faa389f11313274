"""``raw``: unlabelled text, one tokenised sentence per line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.files import MARK, lines_of, read_text, words_of
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import DataError
from nershift.storage import write_text


def read(path: Path, problems: Problems) -> list[Sentence]:
    """One sentence per line, tokens separated by spaces; blank lines separate documents."""
    shared: dict[str, str] = {}
    sentences = []
    for number, line in enumerate(lines_of(read_text(path, problems)), 1):
        tokens = tuple(shared.setdefault(t, t) for t in words_of(line))
        if tokens:
            sentences.append(Sentence(tokens, place=f"{path}:{number}"))
    return sentences


def write(path: Path, sentences: Iterable[Sentence]) -> None:
    """Tokens separated by spaces; sentences with entities are refused, since this format would lose them."""
    out = []
    for sentence in sentences:
        if sentence.spans:
            raise DataError(
                "the sentence has entities, which raw text cannot hold",
                place=sentence.place,
                expected="sentences without labels",
                fix="write conll or jsonl, or remove the spans first",
            )
        if not sentence.tokens or any(not t or any(c in t for c in " \t\n\r") for t in sentence.tokens):
            raise DataError(
                "the sentence has no tokens, or one with a space in it",
                place=sentence.place,
                expected="tokens without white space",
                fix="write jsonl instead",
            )
        guard = MARK if sentence.tokens[0].startswith(MARK) else ""  # one at the start of a line is dropped
        out.append(guard + " ".join(sentence.tokens) + "\n")
    write_text(path, "".join(out))


FORMATS.register("raw")(
    Format(
        (".raw", ".raw.txt"),
        read,
        write,
        names=tuple(f"{name}.{end}" for name in ("raw", "unlabelled", "unlabeled") for end in ("txt", "*.txt")),
        labelled=False,
    )
)
