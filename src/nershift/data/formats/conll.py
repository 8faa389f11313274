"""CoNLL columns: one token per line, a blank line after each sentence, the tag in some column."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path

from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.files import MARK, lines_of, read_text, report_returns
from nershift.data.formats.tagged import Block, looks_like_tag, sentences_from_tags
from nershift.data.labels import Scheme, spans_to_tags
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.errors import DataError
from nershift.storage import write_text

_log = logging.getLogger(__name__)

BORDER = "-DOCSTART-"
_BORDER_TAGS = frozenset(["O", "-X-", BORDER])


def read(
    path: Path, problems: Problems, *, token_column: int = 0, tag_column: int = -1, scheme: Scheme | None = None
) -> list[Sentence]:
    """Read columns separated by tabs or, in a line without a tab, by spaces.

    The first ``-DOCSTART-`` line of a block is a document border, a further one a token. A line that starts
    with ``# `` and has no tag is a comment.
    """
    lines = report_returns(lines_of(read_text(path, problems)), path, problems)
    return sentences_from_tags(_blocks(path, lines, token_column, tag_column, problems), str(path), problems, scheme)


def _blocks(path: Path, lines: Sequence[str], token_column: int, tag_column: int, problems: Problems) -> list[Block]:
    blocks: list[Block] = []
    tokens: list[str] = []
    tags: list[str] = []
    numbers: list[int] = []
    shared: dict[str, str] = {}  # one string object for each distinct token and tag
    width = 0  # columns of the first token line
    documents = 0
    bordered = False
    for number, line in enumerate(lines, 1):
        if "\t" in line:
            parts = line.split("\t")
            if not parts[0] and not line.strip(" \t"):
                parts = []
        else:
            parts = [part for part in line.split(" ") if part]
        if not parts:
            if tokens:
                blocks.append(_block(tokens, tags, numbers))
                tokens, tags, numbers = [], [], []
            bordered = False
            continue
        if parts[0] == BORDER and not tokens and not bordered and (len(parts) == 1 or parts[-1] in _BORDER_TAGS):
            documents += 1
            bordered = True
            continue
        if line[0] == "#" and _is_comment(line, parts, width, tag_column):
            continue
        if len(parts) != width:
            if width == 0 and len(parts) > 1:
                width = len(parts)
            else:
                parts = _mend_columns(parts, width, f"{path}:{number}", problems)
        try:
            token, tag = parts[token_column], parts[tag_column].strip(" ")
        except IndexError:
            raise _no_column(len(parts), token_column, tag_column, f"{path}:{number}") from None
        if not token:
            problems.report(
                "empty token",
                f"{path}:{number}",
                f"the token column is empty in {line!r}",
                expected="a token before the tag",
                fix="remove the line or fill in the token",
                repair="line left out",
            )
            continue
        tokens.append(shared.setdefault(token, token))
        tags.append(shared.setdefault(tag, tag))
        numbers.append(number)
    if tokens:
        blocks.append(_block(tokens, tags, numbers))
    if documents:
        _log.debug("%s: %d document borders", path, documents)
    return blocks


def _block(tokens: list[str], tags: list[str], numbers: list[int]) -> Block:
    gapless = numbers[-1] - numbers[0] + 1 == len(numbers)
    return Block(tokens, tags, range(numbers[0], numbers[-1] + 1) if gapless else numbers)


def _is_comment(line: str, parts: list[str], width: int, tag_column: int) -> bool:
    if "\t" in line or not (line == "#" or line.startswith("# ")):
        return False
    column = tag_column % len(parts)
    return len(parts) == 1 or len(parts) != (width or len(parts)) or not looks_like_tag(parts[column])


def _no_column(width: int, token_column: int, tag_column: int, place: str) -> DataError:
    return DataError(
        f"the line has {width} columns",
        place=place,
        expected=f"a token in column {token_column} and a tag in column {tag_column}, counted from 0",
        fix="name the columns that hold token and tag",
    )


def _mend_columns(parts: list[str], width: int, place: str, problems: Problems) -> list[str]:
    """Report a line with too few or too many columns and give it the width of the others."""
    wanted = max(width, 2)
    short = len(parts) < wanted
    problems.report(
        "missing column" if short else "extra column",
        place,
        f"{len(parts)} column{'s' if len(parts) > 1 else ''}: {' | '.join(parts)!r}",
        expected=f"{wanted} columns" + (", as in the lines before" if width else " (token and tag)"),
        fix="add the missing column" if short else "separate columns by tabs where a token has a space",
        repair="the token is read as O" if short else "the last column is read as the tag",
    )
    if short:
        return [parts[0], *["O"] * (wanted - 1)]
    return [*parts[: wanted - 1], parts[-1]]


def write(path: Path, sentences: Iterable[Sentence], *, scheme: Scheme = "BIO") -> None:
    """Write token, tab, tag; what columns cannot hold (no token, a tab in a token) is an error."""
    out: list[str] = []
    for sentence in sentences:
        if not sentence.tokens:
            raise _cannot("a sentence has no tokens", sentence, "omit empty sentences")
        tags = spans_to_tags(sentence.spans, len(sentence), scheme)
        if sentence.tokens[0] == BORDER and tags[0] == "O":
            out.append(f"{BORDER}\tO\n")  # a border in front makes the next such line a token
        for token, tag in zip(sentence.tokens, tags, strict=True):
            if not token.strip(" ") or any(c in token for c in "\t\n\r"):
                raise _cannot(f"token {token!r} cannot stand in a column", sentence, "write jsonl instead")
            if any(c in tag for c in "\t\n\r") or tag.endswith((" ", "-")):
                raise _cannot(f"tag {tag!r} cannot stand in a column", sentence, "rename the entity type")
            guard = MARK if token.startswith(MARK) else ""  # one at the start of a line is dropped
            out.append(f"{guard}{token}\t{tag}\n")
        out.append("\n")
    write_text(path, "".join(out))


def _cannot(found: str, sentence: Sentence, fix: str) -> DataError:
    return DataError(found, place=sentence.place, expected="what CoNLL columns can hold", fix=fix)


def matches(path: Path, head: str) -> float:
    """Do the first lines end in tags?"""
    lines = [line for line in lines_of(head) if line.strip()][:20]
    if not lines or lines[0].lstrip()[0] in "[{":
        return 0.0
    rows = [line.split("\t") if "\t" in line else line.split() for line in lines]
    tagged = [row for row in rows if not row[0].startswith(("#", BORDER))]
    complete = tagged[:-1] or tagged  # the last line may be cut
    return 0.7 if tagged and all(len(row) > 1 and looks_like_tag(row[-1].strip()) for row in complete) else 0.0


FORMATS.register("conll")(
    Format(
        (".conll", ".bio", ".iob", ".iob2", ".bioes", ".bilou", ".bmes", ".tsv", ".col"),
        read,
        write,
        matches,
        names=("*.train", "*.dev", "*.test", "*.testa", "*.testb", "*.valid"),  # as the shared tasks call them
    )
)
