"""ACE 2005 as distributed: ``.sgm`` texts with ``.apf.xml`` annotation, six genres that serve as six domains.

The corpus is licensed, so nothing of it is packaged; point the reader at the folder of the English part.
What is kept follows the published MetaNER set-up: mention extents (not heads), names, nominals and pronouns
alike, the seven top-level types, and of nested mentions the innermost unless all are asked for.
"""

from __future__ import annotations

import html
import logging
import random
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from nershift.data.corpus import Corpus
from nershift.data.formats.align import CharSpan, split_document
from nershift.data.formats.base import FORMATS, Format
from nershift.data.formats.files import read_text
from nershift.data.problems import Problem, Problems
from nershift.data.spans import Sentence
from nershift.data.tokenizer import sentences as sentence_ranges
from nershift.errors import ConfigError, DataError

_log = logging.getLogger(__name__)

GENRES = {
    "bc": "broadcast conversations",
    "bn": "broadcast news",
    "cts": "conversational telephone speech",
    "nw": "newswire",
    "un": "usenet",
    "wl": "weblogs",
}
TYPES = ("FAC", "GPE", "LOC", "ORG", "PER", "VEH", "WEA")
_VERSIONS = ("timex2norm", "adj", "fp1", "fp2")  # the final annotation first
_MARKUP = re.compile(r"<[^<>]*>|&(?:amp|lt|gt|quot|apos|#\d+);")
_LONGEST_ESCAPE = 12  # &#1114111; and some leading zeros
_HEADERS = frozenset(["DOCID", "DOCTYPE", "DOCNO", "DATETIME", "DATE_TIME", "DATE", "ENDTIME", "END_TIME", "POSTDATE"])

Part = Literal["extent", "head"]


@dataclass(frozen=True)
class AceReading:
    """One corpus per genre, and how many mentions were dropped because another one lies inside them."""

    corpora: dict[str, Corpus]
    nested: Counter[str]


def read_genres(path: Path, problems: Problems, *, part: Part = "extent", seed: int = 13) -> AceReading:
    """Read the folder that holds ``bc``, ``bn``, … (or any folder above them).

    The papers publish sizes (80 / 10 / 10 percent of the sentences of a genre) but no lists, so the splits
    are drawn with ``seed``.
    """
    corpora: dict[str, Corpus] = {}
    nested: Counter[str] = Counter()
    for genre in GENRES:
        files = _files(path, genre)
        if not files:
            continue
        rows: list[Sentence] = []
        for sgm in files:
            sentences, dropped = read_document(sgm, problems, part=part)
            rows += sentences
            nested[genre] += dropped
        random.Random(seed).shuffle(rows)
        tenth = len(rows) // 10
        splits = {"dev": rows[:tenth], "test": rows[tenth : 2 * tenth], "train": rows[2 * tenth :]}
        corpora[genre] = Corpus(f"ace2005_{genre}", domain=genre, language="English").with_splits(**splits)
        _log.info("ACE 2005 %s: %d outer mentions of nested ones left out", genre, nested[genre])
    if not corpora:
        raise DataError(
            "there are no .apf.xml files in folders named after the genres",
            place=str(path),
            expected=f"folders {', '.join(GENRES)} with .sgm and .apf.xml files",
            fix="give the folder data/English of the distribution",
        )
    return AceReading(corpora, nested)


def corpus(path: Path, problems: Problems, domain: str) -> Corpus:
    """One genre, or all of them together."""
    corpora = read_genres(path, problems).corpora
    if domain and domain not in corpora:
        raise ConfigError(f"ACE 2005 has no genre '{domain}' here", expected=", ".join(corpora))
    if domain:
        return corpora[domain]
    splits = {name: [s for c in corpora.values() for s in c.split(name)] for name in ("train", "dev", "test")}
    return Corpus("ace2005", domain="all genres", language="English").with_splits(**splits)


def read(path: Path, problems: Problems) -> list[Sentence]:
    """The sentences of one document, or of all genres under a folder."""
    if path.is_file():
        stem = path.name.removesuffix(".xml").removesuffix(".apf").removesuffix(".sgm")
        return read_document(path.with_name(stem + ".sgm"), problems)[0]
    corpora = read_genres(path, problems).corpora.values()
    return [s for genre in corpora for split in genre.splits.values() for s in split]


def _files(path: Path, genre: str) -> list[Path]:
    """The texts of a genre, each once: the distribution has several stages of annotation."""
    chosen: dict[str, tuple[int, Path]] = {}
    for xml in sorted(path.rglob("*.apf.xml")):
        parts = xml.relative_to(path.parent).parts[:-1]
        if genre not in parts:
            continue
        rank = next((i for i, version in enumerate(_VERSIONS) if version in parts), 0)
        sgm = xml.with_name(xml.name.removesuffix(".apf.xml") + ".sgm")
        if sgm.name not in chosen or rank < chosen[sgm.name][0]:
            chosen[sgm.name] = (rank, sgm)
    return [chosen[name][1] for name in sorted(chosen)]


def read_document(sgm: Path, problems: Problems, *, part: Part = "extent") -> tuple[list[Sentence], int]:
    """Sentences of one document, and how many outer mentions were left out."""
    text, position, ranges = _strip(read_text(sgm, problems))
    mentions = _mentions(sgm.with_name(sgm.name.removesuffix(".sgm") + ".apf.xml"), position, text, part, problems)
    kept = list({m[:3]: m for m in mentions}.values()) if problems.nested else innermost(mentions)
    sentences = split_document(text, kept, ranges, str(sgm), problems, split_hyphens=True)
    return sentences, len(mentions) - len(kept)


def _strip(source: str) -> tuple[str, list[int], list[tuple[int, int]]]:
    """Text without markup, where each annotated offset lies in it, and its sentences.

    Offsets in the annotation count the characters without the tags, line feeds included and ``&amp;`` as five;
    the text has the character it stands for.
    """
    source = source.replace("\r\n", "\n")
    text: list[str] = []
    run: list[str] = []  # the text since the last tag
    position: list[int] = []  # offset in the annotation → index in the text
    ranges: list[tuple[int, int]] = []
    length = section = at = 0
    header = ""
    for match in [*_MARKUP.finditer(source), None]:
        piece = source[at : match.start() if match else len(source)]
        run.append(piece)
        position += range(length, length + len(piece))
        length += len(piece)
        if match is None or match.group().startswith("<"):
            text.append("".join(run))
            if not header:
                ranges += [(section + a, section + b) for a, b in sentence_ranges(text[-1], wrapped=True)]
            run, section = [], length
            header = _header_after(match.group() if match else "", header)
        else:
            character = _character(match.group())
            run.append(character)
            position += [length] * len(match.group())
            length += len(character)
        at = match.end() if match else at
    return "".join(text), [*position, length], ranges


def _character(escape: str) -> str:
    """What an escape such as ``&amp;`` stands for; itself where that is no character."""
    if len(escape) > _LONGEST_ESCAPE:
        return escape
    return html.unescape(escape) or escape


def _header_after(tag: str, header: str) -> str:
    """The header element that the text after ``tag`` is in, if any."""
    name = re.sub(r"[<>/]", " ", tag).split()
    if not name:
        return header
    if tag.startswith("</"):
        return "" if name[0] == header else header
    return name[0] if name[0] in _HEADERS else header


def _mentions(path: Path, position: list[int], text: str, part: Part, problems: Problems) -> list[CharSpan]:
    try:
        root = ElementTree.parse(path).getroot()
    except FileNotFoundError:
        raise DataError("the annotation file is missing", place=str(path), fix="copy it beside the .sgm file") from None
    except OSError as error:
        raise DataError(f"the file cannot be read ({error.strerror})", place=str(path)) from None
    except (ElementTree.ParseError, ValueError, LookupError) as error:  # the last two: an encoding nobody knows
        raise DataError(f"not well-formed XML ({error})", place=str(path), fix="copy the file again") from None
    mentions = []
    for entity in root.iter("entity"):
        label = entity.get("TYPE", "")
        for mention in entity.iter("entity_mention"):
            place = f"{path}:{mention.get('ID', '')}"
            sequence = mention.find(f"{part}/charseq")
            if sequence is None or label not in TYPES:
                problems.add(_bad(place, f"a mention of type '{label}' with no {part} or an unknown type"))
                continue
            start, last = (_offset(sequence.get(name, "")) for name in ("START", "END"))
            if not 0 <= start <= last < len(position) - 1:
                problems.add(_bad(place, f"offsets {start}..{last} lie outside the text"))
                continue
            span = CharSpan(position[start], position[last + 1], label, None, place)
            there, quoted = text[span.start : span.end], _MARKUP.sub(_unescaped, sequence.text or "")
            if "".join(there.split()) != "".join(quoted.split()):
                problems.add(_bad(place, f"the annotation quotes {quoted!r} but the text has {there!r}"))
                continue
            mentions.append(span)
    return mentions


def _unescaped(markup: re.Match[str]) -> str:
    return markup.group() if markup.group().startswith("<") else _character(markup.group())


def _offset(text: str) -> int:
    """A number of characters; -1 for what is none."""
    return int(text) if text.isdecimal() and len(text) < 12 else -1


def innermost(mentions: list[CharSpan]) -> list[CharSpan]:
    """Mentions with no other one inside them; of equal or crossing ones the first and shortest stays."""
    kept: list[CharSpan] = []
    for span in sorted(mentions, key=lambda s: (s.end - s.start, s.start)):
        if all(span.end <= other.start or other.end <= span.start for other in kept):
            kept.append(span)
    return sorted(kept)


def _bad(place: str, found: str) -> Problem:
    return Problem(
        "bad annotation",
        place,
        found,
        expected=f"inclusive character offsets into the .sgm text and one of the types {', '.join(TYPES)}",
        fix="use the .sgm file that belongs to the annotation, unchanged",
        repair="left out",
    )


def matches(path: Path, head: str) -> float:
    return 0.4 if path.is_dir() and next(path.rglob("*.apf.xml"), None) is not None else 0.0


FORMATS.register("ace2005")(Format((".apf.xml", ".sgm"), read, None, matches, corpus=corpus, nested=True))
