"""nershift: move a named entity recogniser to a new domain or language with few labels or none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# The public names and where they live; loaded on first use, so that `import nershift` is quick.
_HOMES = {
    "Corpus": "nershift.data.corpus",
    "Sentence": "nershift.data.spans",
    "Span": "nershift.data.spans",
    "NershiftError": "nershift.errors",
    "read_corpus": "nershift.data.formats",
    "builtin_corpus": "nershift.data.builtin",
    "transfer": "nershift.run",
    "pretrain": "nershift.run",
    "Run": "nershift.run_folder",
    "Tagger": "nershift.tagger.tagger",
}
__all__ = ["Corpus", "NershiftError", "Run", "Sentence", "Span", "Tagger"]
__all__ += ["builtin_corpus", "pretrain", "read_corpus", "transfer"]

if TYPE_CHECKING:
    from nershift.data.builtin import builtin_corpus
    from nershift.data.corpus import Corpus
    from nershift.data.formats import read_corpus
    from nershift.data.spans import Sentence, Span
    from nershift.errors import NershiftError
    from nershift.run import pretrain, transfer
    from nershift.run_folder import Run
    from nershift.tagger.tagger import Tagger


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'nershift' has no attribute '{name}'")
