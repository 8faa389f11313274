"""Split running text into tokens and sentences, as character ranges; only white space is lost.

Both take time in proportion to the text, whatever is in it. A byte order mark (U+FEFF) counts as white space wherever
it stands: files that were joined leave some in the text.
"""

from __future__ import annotations

import re
from itertools import chain

# Combining signs and joiners that belong to the letter before them but are no word characters for ``re``.
_SIGNS = (
    "\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670"
    "\u06d6-\u06dc\u06df-\u06e8\u06ea-\u06ed\u0711\u0730-\u074a\u0900-\u0963\u0966-\u0df3\u0e01-\u0e3a\u0e40-\u0e4e"
    "\u0eb0-\u0ebc\u0ec8-\u0ecd\u0f71-\u0f84\u102b-\u103e\u1780-\u17d3\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff"
    "\ufe20-\ufe2f"
)
# Chinese characters and Japanese kana: scripts without spaces, one token per character.
_CJK = (
    "\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTER = rf"(?:(?![{_CJK}])[\w{_SIGNS}])"
_POSSESSIVE = rf"['’][sS](?!{_LETTER})"


def _token_pattern(hyphens: str) -> re.Pattern[str]:
    return re.compile(
        rf"""[{_CJK}]
        | (?:(?![{_CJK}\d_])\w\.){{2,}}                           # U.S., e.g.
        | {_LETTER}+ (?: (?: (?<=\d)[.,:/](?=\d)                  # 3.14, 1,000, 12:30
                           | (?!{_POSSESSIVE})['’](?={_LETTER})    # don't, O'Neill; but Rome | 's
                           | {hyphens}(?={_LETTER})                # well-known
                         ) {_LETTER}+ )*
        | {_POSSESSIVE}
        | [^\s\ufeff]""",
        re.VERBOSE,
    )


_TOKEN = _token_pattern("[-‐‑]")
_TOKEN_NO_HYPHENS = _token_pattern("(?!)")  # the empty look-ahead never matches

_ABBREVIATIONS = re.compile(
    r"""(?:adm|al|approx|apr|art|aug|ave|blvd|ca|capt|cf|ch|cmdr|co|col|corp|dec|dept|dr|drs|ed|eds|eq|est|etc
    | feb|fig|figs|fr|gen|gov|hon|inc|jan|jr|jul|jun|lt|ltd|maj|mar|messrs|mme|mr|mrs|ms|mt|no|nos|nov|oct
    | op|pp|prof|pt|rep|rev|sec|sen|sep|sept|sgt|sr|st|str|u\.k|u\.n|u\.s|v|vol|vs|z\.b
    | d\.h|usw|bzw|e\.g|i\.e)""",
    re.VERBOSE | re.IGNORECASE,
)
# A stop begins where its run of signs begins: trying each sign of a long run would take time quadratic in its length.
_STOP = re.compile(r"""[.?!…](?<![.?!…]{2})[.?!…]*["'”’»)\]]*(?=\s)|[。！？｡]+[」』”’）]*""")
_BLANK = "".join(c for c in map(chr, range(0x3001)) if c.isspace()) + "\ufeff"
_WORD_BEFORE = re.compile(r"[^\s\ufeff(\[\"'“‘«]+$")


def tokenize(text: str, *, split_hyphens: bool = False) -> list[tuple[int, int]]:
    """Character ranges of the tokens of ``text``.

    A word keeps inner hyphens and apostrophes, a number its inner dots and commas, and initials their dots; a
    final ``'s``, every other sign and every Chinese or Japanese character stand alone.

    Args:
        text: any text; what lies between tokens is always white space or a byte order mark.
        split_hyphens: make hyphens tokens of their own, for corpora that annotate parts of compounds.

    Example:
        >>> text = "O'Neill's U.S. trip cost $3,000."
        >>> [text[a:b] for a, b in tokenize(text)]
        ["O'Neill", "'s", 'U.S.', 'trip', 'cost', '$', '3,000', '.']
    """
    pattern = _TOKEN_NO_HYPHENS if split_hyphens else _TOKEN
    return [match.span() for match in pattern.finditer(text)]


def sentences(text: str, *, wrapped: bool = False) -> list[tuple[int, int]]:
    """Character ranges of the sentences of ``text``, without white space at their edges.

    A line break ends a sentence, and so does a run of ``.?!`` before white space unless the word before it is
    a known abbreviation or an initial, or the next word starts in lower case.

    Args:
        text: running text.
        wrapped: lines are wrapped at a width, so a single line break is a space and only a blank line separates.

    Example:
        >>> text = "Dr. Who left. Nobody saw it!\\nThe end"
        >>> [text[a:b] for a, b in sentences(text)]
        ['Dr. Who left.', 'Nobody saw it!', 'The end']
    """
    ranges: list[tuple[int, int]] = []
    at = 0
    for line_break in chain(re.finditer(r"\n[^\S\n]*\n" if wrapped else r"\n", text), [None]):
        end = line_break.start() if line_break else len(text)
        for stop in _STOP.finditer(text, at, end):
            if _ends_sentence(text, at, stop, end):
                _add_trimmed(ranges, text, at, stop.end())
                at = stop.end()
        _add_trimmed(ranges, text, at, end)
        at = end
    return ranges


def _ends_sentence(text: str, start: int, stop: re.Match[str], end: int) -> bool:
    rest = text[stop.end() : min(end, stop.end() + 40)].lstrip()
    if not rest or stop.group()[0] in "。！？｡":
        return True
    if rest.lstrip("\"'“‘«([")[:1].islower():
        return False
    if stop.group() != ".":
        return True
    word = _WORD_BEFORE.search(text, max(start, stop.start() - 40), stop.start())
    if word is None:
        return True
    before = word.group()
    initial = len(before) == 1 and before.isalpha() and before.isupper()
    return not initial and not _ABBREVIATIONS.fullmatch(before)


def _add_trimmed(ranges: list[tuple[int, int]], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    if piece.strip(_BLANK):
        left = len(piece) - len(piece.lstrip(_BLANK))
        ranges.append((start + left, start + len(piece.rstrip(_BLANK))))
