"""Labelled sentences of a request, as tokens with token spans or as text with character spans, become sentences."""

from __future__ import annotations

from collections.abc import Sequence

from nershift.data.formats.align import CharSpan, split_document
from nershift.data.problems import Problems
from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as split_sentences
from nershift.errors import DataError
from nershift.server import limits
from nershift.server.refusals import Refusal
from nershift.server.schemas import LabelledText, LabelledTokens


def labelled_sentences(rows: Sequence[LabelledText | LabelledTokens]) -> list[Sentence]:
    """The sentences to learn; a text is split as it is for tagging, except inside an entity.

    Raises:
        DataError: an entity lies outside, overlaps another, has a border inside a token or another text than it says.
        Refusal: a text is longer than tokens may be (422), or all together are too much (413).
    """
    out: list[Sentence] = []
    tokens = 0
    for number, row in enumerate(rows):
        place = f"sentence {number}"
        if isinstance(row, LabelledText):
            found = _of_text(row, place)
        else:
            found = [Sentence.of(row.tokens, [entity.tokens() for entity in row.entities], place=place)]
        out += found
        longest = max(map(len, found), default=0)
        if longest > limits.MOST_TOKENS:
            message = f"{place}: {longest} tokens in one sentence, at most {limits.MOST_TOKENS} are allowed"
            raise Refusal(422, "too_long", message, "break the text into lines: each is a sentence")
        tokens += sum(map(len, found))
        if tokens > limits.MOST_LABELLED_TOKENS:
            message = f"{place}: more than {limits.MOST_LABELLED_TOKENS} tokens in the sentences up to here"
            raise Refusal(413, "too_long", message, "send fewer sentences at once")
        if len(out) > limits.MOST_LABELLED:
            message = f"{place}: more than {limits.MOST_LABELLED} sentences in the texts up to here"
            raise Refusal(422, "too_long", message, "send fewer texts at once")
    return out


def _of_text(row: LabelledText, place: str) -> list[Sentence]:
    for number, entity in enumerate(row.entities):
        found = row.text[entity.start : entity.end]
        if entity.text is not None and entity.text != found:
            raise DataError(
                f"the text has {found!r} at {entity.start}:{entity.end}, the entity says {entity.text!r}",
                place=f"{place}, entity {number}",
                expected="start and end counted in characters (Unicode code points), not bytes or UTF-16 units",
                fix="correct start and end",
            )
    spans = [CharSpan(e.start, e.end, e.label, place=f"{place}, entity {i}") for i, e in enumerate(row.entities)]
    try:
        return split_document(row.text, spans, split_sentences(row.text), place, Problems())
    except DataError as error:
        fix = "correct start and end, or send tokens with token_start and token_end"
        raise DataError(error.found, place=error.place, expected=error.expected, fix=fix) from None
