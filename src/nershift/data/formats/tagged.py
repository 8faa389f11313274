"""Tags to sentences: detect the scheme of a whole file, report what breaks it, read the spans."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nershift.data.labels import Scheme, legal, split_tag, tags_to_spans
from nershift.data.problems import Problems
from nershift.data.spans import Sentence

Pairs = Counter[tuple[str, str]]

_GOOD_TAG = re.compile(r"O|[BIESLU]-.+", re.DOTALL)
_NOTHING = frozenset(["", "0", "o", "_", "-"])
# More illegal tags than this, and more than this share of all mentions: two schemes in one file, not slips.
_MIXED_COUNT, _MIXED_SHARE = 10, 0.1


@dataclass
class Block:
    """The tokens and tags of one sentence as they stand in a file; ``lines`` has one line number per token."""

    tokens: list[str]
    tags: list[str]
    lines: Sequence[int]


def sentences_from_tags(
    blocks: Sequence[Block], file: str, problems: Problems, scheme: Scheme | None = None
) -> list[Sentence]:
    """Sentences with spans; tags that break the scheme are problems at ``file:line``.

    Args:
        blocks: all sentences of one file, which has one scheme.
        file: for places in messages.
        problems: those that are collected are repaired as conlleval reads tags: an I- out of nowhere starts an
            entity.
        scheme: what the tags must follow; by default the one that the fewest tags break.
    """
    pairs = _count_pairs(blocks)
    odd = {tag for pair in pairs for tag in pair if tag and not _GOOD_TAG.fullmatch(tag)}
    if odd:
        _rewrite_odd(blocks, odd, file, problems)
        pairs = _count_pairs(blocks)
    if scheme is None:
        scheme = detect_scheme(pairs)
    illegal = {pair for pair in pairs if not legal(*pair, scheme)}
    if illegal:
        _report_illegal(blocks, pairs, illegal, scheme, file, problems)
    return [
        Sentence(
            tuple(block.tokens),
            tuple(tags_to_spans(block.tags)) if _has_entity(block.tags) else (),
            None,
            None,
            f"{file}:{block.lines[0]}",
        )
        for block in blocks
    ]


def detect_scheme(pairs: Pairs) -> Scheme:
    """The scheme that the fewest neighbouring tags break; BIO when all fit.

    Example:
        >>> detect_scheme(Counter({("O", "I-LOC"): 5, ("I-LOC", "O"): 5}))
        'IOB1'
    """
    prefixes = _prefixes(pairs)
    if prefixes & set("ESLU"):
        return "BIOES" if prefixes & set("ES") else "BILOU"
    breaks = {s: _count_illegal(pairs, s) for s in ("BIO", "IOB1")}
    return "BIO" if breaks["BIO"] <= breaks["IOB1"] else "IOB1"


def looks_like_tag(word: str) -> bool:
    return bool(_GOOD_TAG.fullmatch(word))


def _has_entity(tags: Sequence[str]) -> bool:
    return tags.count("O") != len(tags)


def _count_pairs(blocks: Sequence[Block]) -> Pairs:
    """How often each tag follows each other one, with the empty string at both edges of a sentence."""
    pairs: Pairs = Counter()
    for block in blocks:
        if _has_entity(block.tags):
            pairs.update(zip(["", *block.tags], [*block.tags, ""], strict=True))
    return pairs


def _prefixes(pairs: Pairs) -> set[str]:
    return {split_tag(after)[0] for _, after in pairs if after}


def _count_illegal(pairs: Pairs, scheme: Scheme) -> int:
    return sum(n for pair, n in pairs.items() if not legal(*pair, scheme))


def _rewrite_odd(blocks: Sequence[Block], odd: set[str], file: str, problems: Problems) -> None:
    """Replace tags without a known prefix; one problem for each such tag, at its first line."""
    known: dict[str, str] = {}  # odd tag → entity type, or nothing for O
    # BMES is BIOES with M for I; an M- in a file without E and S is not.
    bmes = bool({"E", "S"} & {split_tag(tag)[0] for block in blocks for tag in block.tags})
    for block in blocks:
        for i, tag in enumerate(block.tags):
            if tag not in odd:
                continue
            if bmes and tag.startswith("M-"):
                block.tags[i] = f"I-{tag[2:]}"
                continue
            if tag not in known:
                known[tag] = _type_of_odd(tag)
                problems.report(
                    "unknown tag",
                    f"{file}:{block.lines[i]}",
                    f"tag {tag!r} of token {block.tokens[i]!r} has no known prefix",
                    expected="O or a type after B-, I-, E-, S-, L- or U-",
                    fix="check which column holds the tag, or read with repair",
                    repair=f"read as {known[tag] or 'O'} in the whole file, neighbours as one mention",
                )
            label = known[tag]
            inside = i > 0 and split_tag(block.tags[i - 1])[1] == label
            block.tags[i] = f"{'I' if inside else 'B'}-{label}" if label else "O"


def _type_of_odd(tag: str) -> str:
    """``X-PER`` and ``PER`` are of type PER, ``person-actor`` of type person-actor, ``_`` of none."""
    if tag in _NOTHING:
        return ""
    prefix, label = split_tag(tag)
    return label if len(prefix) == 1 and label else tag.strip("-") or tag


def _report_illegal(
    blocks: Sequence[Block], pairs: Pairs, illegal: set[tuple[str, str]], scheme: Scheme, file: str, problems: Problems
) -> None:
    count = sum(pairs[pair] for pair in illegal)
    mentions = sum(n for (before, after), n in pairs.items() if _starts(before, after))
    many = count > _MIXED_COUNT and count > _MIXED_SHARE * mentions
    mixture = _mixture(pairs, many)
    if mixture or many:
        line, what, _ = next(_illegal_tags(blocks, illegal))
        problems.report(
            "mixed schemes",
            f"{file}:{line}",
            f"{mixture}{count} tags break {scheme}, the nearest scheme, in {mentions} mentions; first: {what}",
            expected="one tag scheme in a file",
            fix="write the file again in one scheme, or read it with repair",
            repair="each mention starts at B, S, U or where an entity of another type ends",
        )
        return
    for line, what, pair in _illegal_tags(blocks, illegal):
        problems.report(
            "malformed tag",
            f"{file}:{line}",
            what,
            expected=f"a tag that may stand there in {scheme}",
            fix=f"correct the tag (for example {_suggest(pair, scheme)}), or read with repair",
            repair="read as conlleval does: an entity starts there if none of its type is open",
        )


def _mixture(pairs: Pairs, many: bool) -> str:
    """Which schemes are mixed, as a sentence; empty where tags break one scheme only here and there."""
    tags: Counter[str] = Counter()
    for (_, after), n in pairs.items():
        tags[split_tag(after)[0]] += n
    ours, theirs = tags["E"] + tags["S"], tags["L"] + tags["U"]
    if ours and theirs:
        return f"tags of two schemes: with E- or S- (BIOES) {ours}, with L- or U- (BILOU) {theirs}. "
    if ours or theirs:
        single, end, whole = ("S", "E", "BIOES") if ours else ("U", "L", "BILOU")
        marked = ", ".join(f"with {p}- ({whole}) {tags[p]}" for p in (single, end) if tags[p])
        unclosed = sum(n for (a, b), n in pairs.items() if a[:2] in ("B-", "I-") and not _goes_on(a, b))
        if unclosed and (many or not tags[end]):
            return f"tags of two schemes: {marked}, entities that end without {end}- (BIO) {unclosed}. "
        return ""
    with_i = sum(n for (a, b), n in pairs.items() if b[:2] == "I-" and not _goes_on(a, b))
    with_b = sum(n for (a, b), n in pairs.items() if b[:2] == "B-" and split_tag(a)[1] != split_tag(b)[1])
    two = many and with_i and with_b
    return f"tags of two schemes: entities that begin with I- (IOB1) {with_i}, with B- (BIO) {with_b}. " if two else ""


def _goes_on(before: str, after: str) -> bool:
    """Does the entity of the first tag go on with the second?"""
    follows = before[:2] in ("B-", "I-") and after[:2] in ("I-", "E-", "L-")
    return follows and split_tag(before)[1] == split_tag(after)[1]


def _illegal_tags(blocks: Sequence[Block], illegal: set[tuple[str, str]]) -> Iterator[tuple[int, str, tuple[str, str]]]:
    """Line, description and neighbours of each tag that may not stand where it does."""
    for block in blocks:
        if _has_entity(block.tags):
            for i, pair in enumerate(zip(["", *block.tags], [*block.tags, ""], strict=True)):
                if pair in illegal:
                    yield block.lines[min(i, len(block.lines) - 1)], _describe(pair, block, i), pair


def _describe(pair: tuple[str, str], block: Block, i: int) -> str:
    before, after = pair
    if not after:
        return f"the sentence ends after {before} on token {block.tokens[-1]!r}"
    where = f"follows {before}" if before else "starts a sentence"
    return f"{after} on token {block.tokens[i]!r} {where}"


def _suggest(pair: tuple[str, str], scheme: Scheme) -> str:
    before, after = pair
    label = split_tag(after)[1]
    if scheme == "IOB1":
        return f"I-{label}"
    if label and not split_tag(before)[1]:
        return f"B-{label}"
    return "closing the entity before it" if scheme in ("BIOES", "BILOU") else f"B-{label}"


def _starts(before: str, after: str) -> bool:
    return bool(after) and after != "O" and (after[0] in "BSU" or split_tag(before)[1] != split_tag(after)[1])
