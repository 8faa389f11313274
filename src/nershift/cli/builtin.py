"""`builtin`: write the generated corpus to disk, a folder per domain."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nershift.console import say


def register(app: typer.Typer) -> None:
    app.command("builtin")(builtin)


def builtin(
    out_dir: Annotated[
        Path, typer.Argument(file_okay=False, help="The folder to write; each domain becomes a folder in it.")
    ],
    domain: Annotated[
        list[str] | None, typer.Option("--domain", help="Only this domain; may be repeated. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Another seed gives other names and sentences.")] = 0,
) -> None:
    """Write the built-in multi-domain corpus as CoNLL files to try the other commands on."""
    from nershift.data.builtin import BUILTIN_DOMAINS, builtin_corpus
    from nershift.data.formats import conll

    # All are generated before the first is written: a misspelt domain leaves nothing behind.
    corpora = [builtin_corpus(name, seed) for name in dict.fromkeys(domain or BUILTIN_DOMAINS)]
    for corpus in corpora:
        for split, sentences in corpus.splits.items():
            conll.write(out_dir / corpus.domain / f"{split}.conll", sentences)
        sizes = ", ".join(f"{split} {len(sentences)}" for split, sentences in corpus.splits.items())
        say(f"{out_dir / corpus.domain}: {sizes}; {', '.join(corpus.types)}")
