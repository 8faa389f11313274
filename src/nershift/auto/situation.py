"""What somebody has: labels, sources, text, an encoder, a machine. Everything a choice of recipe may depend on."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nershift.auto.encoders import Encoder
from nershift.data.corpus import Corpus
from nershift.data.labels import LabelMapping
from nershift.data.languages import plain_language
from nershift.data.spans import Sentence

FEW = 15  # mentions of a type below which nothing much is learned of it
_LONG = 250  # tokens
_SAMPLE = 200  # sentences that tell how long sentences are


@dataclass(frozen=True)
class SourceFacts:
    """A labelled corpus of another domain, seen from the target."""

    name: str
    sentences: int
    shared: Mapping[str, str]  # target type → its type
    language: str = ""
    tokens: float = 20.0  # in a sentence, on average


@dataclass(frozen=True)
class Situation:
    """The facts that recipes are chosen by.

    Attributes:
        labelled: labelled sentences to train on.
        mentions: entities by type in them.
        dev: labelled sentences of a dev split that may be used to choose; 0: the labels are judged by folds.
        shared: share of the labelled entities (without labels: of the types) whose type some source has too.
        tokens: in a sentence, on average.
        language: by its plain name, if it is known.
    """

    target: str
    labelled: int
    mentions: Mapping[str, int]
    types: tuple[str, ...]
    dev: int
    test: int
    sources: tuple[SourceFacts, ...]
    shared: float
    raw: int
    tokens: float
    language: str = ""
    encoder: Encoder | None = None
    tagger: str = ""  # folder of one to go on with
    device: str = "cpu"
    cores: int = 1

    @property
    def foreign(self) -> bool:
        """Are sources known to be of another language?"""
        return bool(self.language) and any(s.language not in ("", self.language) for s in self.sources)

    def meets(self, needs: Sequence[str]) -> bool:
        """Is everything there that a recipe needs?"""
        has = {
            "labels": self.labelled > 0,
            "no labels": self.labelled == 0,
            "sources": any(s.sentences for s in self.sources),
            "raw text": self.raw > 0,
            "encoder": self.encoder is not None,
            "tagger": bool(self.tagger),
            "gpu": self.device.startswith("cuda"),
        }
        return all(has[need] for need in needs)

    def describe(self) -> list[str]:
        """A few lines for people: what there is, then what is odd about it."""
        few = [t for t in self.types if 0 < self.mentions.get(t, 0) < FEW]
        never = [t for t in self.types if not self.mentions.get(t, 0)]
        counts = ", ".join(f"{t} {n}" for t, n in sorted(self.mentions.items(), key=lambda row: (-row[1], row[0])))
        judged = f"a dev split of {self.dev} sentences" if self.dev else "folds of these labels"
        test = f", {self.test:,} test sentences kept aside" if self.test else ", no test split"
        lines = [f"target   {self.target}: {self.labelled:,} labelled sentences{test}"]
        if self.labelled:
            lines += [f"labels   {counts or 'no entity'}", f"judged   on {judged}"]
        for source in self.sources:
            lines.append(f"source   {source.name}: {source.sentences:,} sentences; {_shares(source, self.types)}")
        if self.foreign:
            others = sorted({source.language for source in self.sources} - {"", self.language})
            lines.append(f"language {self.language.title()}; sources in {', '.join(others).title()}")
        if self.raw:
            lines.append(f"text     {self.raw:,} unlabelled sentences")
        lines.append(
            f"encoder  {self.encoder.describe() if self.encoder else 'none: words and characters are learned'}"
        )
        cores = f"{self.cores} core{'s' if self.cores > 1 else ''}"
        lines.append(f"machine  {cores}{', a GPU' if self.device.startswith('cuda') else ''}")
        if self.labelled and never:
            lines.append(f"odd      no labelled entity of {', '.join(never)}: these will never be predicted")
        if few:
            lines.append(f"odd      fewer than {FEW} labelled entities of {', '.join(few)}")
        if self.tokens > _LONG:
            lines.append(f"odd      sentences have {self.tokens:.0f} tokens on average: are they split into sentences?")
        if self.sources and not self.shared:
            lines.append("odd      no source has a type of the target (--same person=PER says which mean the same)")
        return lines

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def look(
    target: Corpus,
    sources: Sequence[Corpus],
    raw: int,
    *,
    same: Mapping[str, str],
    encoder: Encoder | None,
    device: str,
    tagger: str = "",
) -> Situation:
    """The situation of a target as its labels, its sources and this machine make it.

    Args:
        raw: sentences of unlabelled target text.
        same: target type → source type where names do not tell.
        tagger: folder of one to go on with.
    """
    train = target.splits.get("train", ())
    mentions = Counter(span.label for s in train for span in s.spans)
    judged = target.splits.get("dev", ())
    types = tuple(sorted({*mentions, *(span.label for s in judged for span in s.spans)})) or target.types
    facts = tuple(_facts(source, types, same) for source in sources)
    named = {t for source in facts for t in source.shared}
    amounts = mentions or Counter(types)
    total = sum(amounts.values())
    return Situation(
        target=target.name,
        labelled=len(train),
        mentions=dict(mentions),
        types=types,
        dev=len(judged),
        test=len(target.splits.get("test", ())),
        sources=facts,
        shared=sum(n for t, n in amounts.items() if t in named) / total if total else 0.0,
        raw=raw,
        tokens=_tokens(train or next((s for s in target.splits.values() if s), ())),
        language=plain_language(target.language),
        encoder=encoder,
        tagger=tagger,
        device=device,
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


def _facts(source: Corpus, types: Sequence[str], same: Mapping[str, str]) -> SourceFacts:
    shared = LabelMapping.between(types, source.types, same)
    train = source.splits.get("train", ())
    return SourceFacts(source.name, len(train), dict(shared), plain_language(source.language), _tokens(train))


def _shares(source: SourceFacts, types: Sequence[str]) -> str:
    if not source.shared:
        return "shares no type"
    return f"shares {len(source.shared)} of {len(types)} types ({LabelMapping(source.shared).describe()})"


def _tokens(sentences: Sequence[Sentence]) -> float:
    some = sentences[:_SAMPLE]
    return sum(len(s) for s in some) / len(some) if some else 0.0
