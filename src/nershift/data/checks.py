"""The report before training: what the files hold, and what in them would spoil a result."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from nershift.data.catalog import differences, entry
from nershift.data.corpus import Corpus
from nershift.data.formats.folders import read_corpus
from nershift.data.problems import Problem, Problems
from nershift.data.spans import Sentence

Tokens = tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """One kind of problem in one place. Notes are worth knowing; look at findings before you train."""

    kind: str
    level: Literal["finding", "note"]
    where: str
    count: int
    message: str
    places: tuple[str, ...] = ()
    fix: str = ""


@dataclass(frozen=True)
class SplitCounts:
    sentences: int
    tokens: int
    mentions: Mapping[str, int]
    longest: int


@dataclass(frozen=True)
class CheckReport:
    """Counts of each split, all findings and all notes."""

    splits: Mapping[str, SplitCounts]
    entries: tuple[Finding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return tuple(e for e in self.entries if e.level == "finding")

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(e for e in self.entries if e.level == "note")

    @property
    def ok(self) -> bool:
        return not self.findings

    def to_dict(self) -> dict[str, Any]:
        return {
            "ok": self.ok,
            "splits": {name: asdict(counts) for name, counts in self.splits.items()},
            "findings": [asdict(f) for f in self.findings],
            "notes": [asdict(f) for f in self.notes],
        }


def check(
    paths: str | Path | Iterable[str | Path],
    max_length: int = 250,
    *,
    format: str | None = None,
    nested: bool | None = None,
) -> CheckReport:
    """Read files as one corpus, repairing what can be repaired, and report.

    Args:
        paths: files, folders of split files, or catalogue names, whose local copies are compared with what the
            catalogue expects. Sentences that any two of them share are reported.
        max_length: sentences with more tokens than this are reported.
        format: of all files; by default each file's own.
        nested: see :func:`~nershift.data.formats.read_corpus`.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    problems = Problems(repair=True)
    corpora = [read_corpus(path, format=format, problems=problems, nested=nested) for path in listed]
    report = check_splits(_named_splits(corpora), problems, max_length)
    by_name = [corpus for path, corpus in zip(listed, corpora, strict=True) if not Path(path).exists()]
    return replace(report, entries=(*_not_as_listed(by_name), *report.entries))


def _not_as_listed(corpora: Sequence[Corpus]) -> list[Finding]:
    """Differences between local copies of catalogue corpora and what the catalogue expects."""
    return [
        Finding(
            "not as in the catalogue",
            "finding",
            corpus.name,
            1,
            difference,
            fix=f"compare your copy with: {entry(corpus.name).origin}",
        )
        for corpus in corpora
        for difference in differences(corpus)
    ]


def _named_splits(corpora: Sequence[Corpus]) -> dict[str, tuple[Sentence, ...]]:
    """Splits by name, with the corpus in front where two corpora have the same split."""
    often = Counter(split for corpus in corpora for split in corpus.splits)
    named: dict[str, tuple[Sentence, ...]] = {}
    for number, corpus in enumerate(corpora, 1):
        for split, sentences in corpus.splits.items():
            name = split if often[split] == 1 else f"{corpus.name}/{split}"
            named[name if name not in named else f"{name} ({number})"] = sentences
    return named


def check_splits(splits: Mapping[str, Sequence[Sentence]], problems: Problems, max_length: int) -> CheckReport:
    counts = {name: _count(sentences) for name, sentences in splits.items()}
    entries = [*_from_problems(problems)]
    for name, sentences in splits.items():
        entries += _within_split(name, sentences, max_length)
    entries += _between_splits(splits)
    entries += _unseen_types(counts)
    return CheckReport(counts, tuple(entries))


def _count(sentences: Sequence[Sentence]) -> SplitCounts:
    mentions = Counter(span.label for s in sentences for span in s.spans)
    lengths = [len(s) for s in sentences]
    return SplitCounts(len(sentences), sum(lengths), dict(sorted(mentions.items())), max(lengths, default=0))


def _from_problems(problems: Problems) -> list[Finding]:
    """Problems met while reading, grouped by kind and file."""
    groups: dict[tuple[str, str], list[Problem]] = defaultdict(list)
    for problem in problems:
        groups[problem.kind, problem.place.rpartition(":")[0] or problem.place].append(problem)
    return [
        Finding(
            kind,
            "finding",
            file,
            len(group),
            f"{group[0].found}; {group[0].repair or 'not repaired'}",
            tuple(p.place for p in group),
            group[0].fix,
        )
        for (kind, file), group in groups.items()
    ]


def _within_split(name: str, sentences: Sequence[Sentence], max_length: int) -> list[Finding]:
    empty = [s for s in sentences if not s.tokens]
    long = [s for s in sentences if len(s) > max_length]
    first: dict[Tokens, Sentence] = {}
    repeated, contradicted = [], []
    for sentence in sentences:
        before = first.setdefault(sentence.tokens, sentence)
        if before is not sentence and sentence.tokens:
            repeated.append(sentence)
            if before.spans != sentence.spans:
                contradicted.append(sentence)
    findings = [
        _finding("empty sentence", "finding", name, empty, "no tokens", "remove them"),
        _finding(
            "long sentence",
            "finding",
            name,
            long,
            f"more than {max_length} tokens, the longest {max(map(len, long), default=0)}",
            "look for missing sentence breaks, or raise the limit",
        ),
        _finding("duplicate", "note", name, repeated, "same tokens as an earlier sentence of the split", ""),
        _finding(
            "contradicting duplicate",
            "note",
            name,
            contradicted,
            "same tokens as an earlier sentence of the split, other labels",
            "agree on one annotation",
        ),
    ]
    return [f for f in findings if f.count]


def _between_splits(splits: Mapping[str, Sequence[Sentence]]) -> list[Finding]:
    """Sentences that two splits share: a finding between labelled splits, a note where one is raw."""
    findings = []
    names = list(splits)
    token_sets = {name: {s.tokens for s in splits[name] if s.tokens} for name in names}
    for i, one in enumerate(names):
        for other in names[i + 1 :]:
            common = token_sets[one] & token_sets[other]
            shared = [s for s in splits[other] if s.tokens in common]
            longer = sum(len(s) > 3 for s in shared)
            level: Literal["finding", "note"] = "note" if "raw" in f"{one} {other}" else "finding"
            message = f"also in {one} ({longer} of them longer than 3 tokens)"
            findings.append(
                _finding("shared sentence", level, other, shared, message, "remove them from one of the splits")
            )
    return [f for f in findings if f.count]


def _unseen_types(counts: Mapping[str, SplitCounts]) -> list[Finding]:
    """Types of dev and test that train does not have."""
    known = {t for name, c in counts.items() if _role(name) == "train" for t in c.mentions}
    if not any(_role(name) == "train" for name in counts):
        return []
    findings = []
    for name, split in counts.items():
        only = [t for t in split.mentions if t not in known]
        if _role(name) in ("dev", "test") and only:
            findings.append(
                Finding(
                    "unseen type",
                    "finding",
                    name,
                    sum(split.mentions[t] for t in only),
                    f"not in train: {', '.join(only)}",
                    (),
                    "map the types, or add examples to train",
                )
            )
    return findings


def _role(name: str) -> str:
    return name.split(" ")[0].rpartition("/")[2]


def _finding(
    kind: str, level: Literal["finding", "note"], where: str, sentences: list[Sentence], message: str, fix: str
) -> Finding:
    return Finding(kind, level, where, len(sentences), message, tuple(s.place for s in sentences if s.place), fix)
