"""What adaptation did, sentence by sentence, as Markdown: retrieved neighbours, and predictions before and after.

    python benchmarks/adapted_examples.py --model RUN --data FILE [--limit 20] [--out FILE]

RUN is the folder of a metacross run, FILE a corpus file with gold entities.
"""

from __future__ import annotations

import argparse
from collections import Counter
from pathlib import Path

from nershift import Sentence, Tagger
from nershift.data.formats import read_sentences
from nershift.deploy.adaptive import Case, cases
from nershift.errors import CheckpointError


def marked(sentence: Sentence) -> str:
    """Entities in brackets: [PER Ada Lovelace] left [LOC London]."""
    words = list(sentence.tokens)
    for span in sentence.spans:
        words[span.start] = f"[{span.label} {words[span.start]}"
        words[span.end - 1] += "]"
    return " ".join(words).replace("|", "\\|")


def table(case: Case) -> str:
    rows = [("gold", marked(case.gold)), ("before", marked(case.before)), ("after", marked(case.after))]
    rows += [(f"neighbour, {n.similarity:.2f}", marked(n.sentence)) for n in case.neighbours]
    body = "\n".join(f"| {name} | {text} |" for name, text in rows)
    return f"| {case.outcome} | |\n|---|---|\n{body}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    tagger = Tagger.load(options.model)
    if tagger.support is None:
        raise CheckpointError("keeps no sentences to adapt to", place=str(options.model))
    found = cases(tagger.model, tagger.key, tagger.support, read_sentences(options.data))
    counts = Counter(case.outcome for case in found)
    order = {"put right": 0, "put wrong": 1, "still wrong": 2}
    shown = sorted(found, key=lambda case: order[case.outcome])[: options.limit]
    text = f"{len(found)} sentences changed: {dict(counts)}\n\n" + "\n".join(map(table, shown))
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
