"""After a quick adaptation: is there a better way to learn these labels than to go on with the tagger?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nershift.auto.fit import fit
from nershift.auto.result import Fit
from nershift.data.corpus import Corpus
from nershift.data.spans import Sentence
from nershift.tagger.tagger import Tagger

CONTINUE = "continue_tagger"  # the recipe that the quick adaptation stands for


def race(
    base: Path,
    sentences: Sequence[Sentence],
    folder: Path,
    minutes: float,
    tell: Callable[[str], None],
    recipes: Sequence[str] | None = None,
) -> Fit | None:
    """What `nershift fit` chooses for the labels; None where going on with the tagger is as good as anything.

    Args:
        base: the tagger that was adapted.
        folder: where to work; the chosen tagger lies there.
        recipes: the only ones to consider.
    """
    target = Corpus("labels", {"train": tuple(sentences)}, declared=Tagger.load(base, verify=False).types)
    more: dict[str, Any] = {} if recipes is None else {"recipes": tuple(recipes)}
    done = fit(target, out=folder, start=base, minutes=minutes, one_model=True, report=False, tell=tell, **more)
    return None if done.winner == CONTINUE else done
