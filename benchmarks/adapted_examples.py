"""Tables 1 and 5 of MetaCross from a run of our own, as Markdown: retrieved neighbours, and what adaptation changed.

    python benchmarks/adapted_examples.py --model RUN [--data FILE] [--limit 10] [--out FILE]

RUN is the folder of a metacross run, or of its pre-training; FILE a corpus file with gold entities (the test sentences
of the run if it is not given). Table 1 shows the sentences whose neighbours are nearest and share an entity type with
them, Table 5 sentences that adaptation put right and ones that it put wrong.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from nershift import Sentence, Tagger
from nershift.data.formats import read_sentences
from nershift.errors import CheckpointError
from nershift.methods.adapter import Neighbour, load_adapter
from nershift.model_store import load_model
from nershift.run import Run


def marked(sentence: Sentence) -> str:
    """Entities in brackets: [PER Ada Lovelace] left [LOC London]."""
    words = list(sentence.tokens)
    for span in sentence.spans:
        words[span.start] = f"[{span.label} {words[span.start]}"
        words[span.end - 1] += "]"
    return " ".join(words).replace("|", "\\|")


def table(title: str, rows: Iterable[tuple[str, Sentence]]) -> str:
    body = "\n".join(f"| {name} | {marked(sentence)} |" for name, sentence in rows)
    return f"| {title} | |\n|---|---|\n{body}\n"


def near(neighbours: Iterable[Neighbour]) -> list[tuple[str, Sentence]]:
    return [(f"neighbour, {n.similarity:.2f}", n.sentence) for n in neighbours]


def types(sentence: Sentence) -> set[str]:
    return {span.label for span in sentence.spans}


def retrieved(tagger: Tagger, gold: Sequence[Sentence], limit: int) -> str:
    """Table 1: test sentences with entities beside what was found for them."""
    asked = [s for s in gold if s.spans and 5 <= len(s) <= 30]
    assert tagger.adapter is not None
    found = list(zip(asked, tagger.adapter.neighbours(tagger.model, asked), strict=True))
    alike = [(s, rows) for s, rows in found if any(types(s) & types(n.sentence) for n in rows)]
    share = len(alike) / max(1, len(found))
    best = sorted(alike, key=lambda pair: -min(n.similarity for n in pair[1]))[:limit]
    head = f"Of {len(found)} sentences, {share:.0%} have a neighbour with an entity type of their own.\n\n"
    return head + "\n".join(table("retrieved", [("test", s), *near(rows)]) for s, rows in best)


@dataclass(frozen=True)
class Case:
    """A sentence whose entities adaptation changed."""

    gold: Sentence
    before: Sentence
    after: Sentence

    @property
    def outcome(self) -> str:
        if self.after.spans == self.gold.spans:
            return "put right"
        return "put wrong" if self.before.spans == self.gold.spans else "still wrong"


def cases(tagger: Tagger, gold: Sequence[Sentence]) -> list[Case]:
    """Every sentence that adaptation tags otherwise, in order."""
    tagged = zip(gold, tagger.tag_sentences(gold), tagger.adapt_sentences(gold), strict=True)
    return [Case(*row) for row in tagged if row[1].spans != row[2].spans]


def changed(tagger: Tagger, gold: Sequence[Sentence], limit: int) -> str:
    """Table 5: what adaptation put right, then what it put wrong, then the rest."""
    found = cases(tagger, gold)
    counts = Counter(case.outcome for case in found)
    order = ("put right", "put wrong", "still wrong")
    each = max(1, limit // len(order))
    shown = [c for outcome in order for c in [c for c in found if c.outcome == outcome][:each]]
    outcomes = ", ".join(f"{counts[outcome]} {outcome}" for outcome in order)
    head = f"Adaptation tags {len(found)} of {len(gold)} sentences otherwise: {outcomes}.\n\n"
    return head + "\n".join(
        table(
            c.outcome, [("gold", c.gold), ("before", c.before), ("after", c.after), *near(tagger.neighbours(c.gold)[0])]
        )
        for c in shown
    )


def load(folder: Path) -> Tagger:
    """A run's tagger, or that of a pre-training, whose one head reads the target too."""
    model, meta = load_model(folder)
    adapter = load_adapter(folder)
    if adapter is None:
        raise CheckpointError("keeps no sentences to adapt to", place=str(folder))
    ((key, _),) = model.named_heads()
    return Tagger(model, meta, key, adapter)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--limit", type=int, default=10, help="examples for each table")
    parser.add_argument("--sentences", type=int, default=0, help="look at so many only; 0: all")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tagger = load(options.model)
    tagger.model.to(options.device)
    gold = read_sentences(options.data) if options.data else Run.open(options.model).predictions()[0]
    gold = [s for s in gold if len(s)][: options.sentences or None]
    text = "\n".join(
        (
            "## Table 1: what is retrieved\n",
            retrieved(tagger, gold, options.limit),
            "## Table 5: what adaptation changes\n",
            changed(tagger, gold, options.limit),
        )
    )
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
