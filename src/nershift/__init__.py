"""nershift: move a named entity recogniser to a new domain or language with few labels or none."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.2.0"

# The public names and where they live; loaded on first use, so that `import nershift` is quick.
_HOMES = {
    "Corpus": "nershift.data.corpus",
    "Ensemble": "nershift.tagger.ensemble",
    "Entity": "nershift.tagger.entities",
    "NershiftError": "nershift.errors",
    "Run": "nershift.run_folder",
    "Sentence": "nershift.data.spans",
    "Span": "nershift.data.spans",
    "Tagger": "nershift.tagger.tagger",
    "adapt": "nershift.run",
    "builtin_corpus": "nershift.data.builtin",
    "compare": "nershift.comparison",
    "distil": "nershift.distillation",
    "fit": "nershift.auto.fit",
    "fit_plan": "nershift.auto.fit:plan",
    "export_onnx": "nershift.tagger.onnx.export",
    "pretrain": "nershift.run",
    "read_corpus": "nershift.data.formats",
    "register_encoder": "nershift.encoders.base:register",
    "register_format": "nershift.data.formats.base:register",
    "register_head": "nershift.heads.base:register",
    "register_method": "nershift.methods.base:register",
    "register_recipe": "nershift.auto.recipe:register",
    "resume": "nershift.resume_run",
    "setting": "nershift.config",
    "transfer": "nershift.run",
    "write_corpus": "nershift.data.formats",
}
__all__ = ["Corpus", "Ensemble", "Entity", "NershiftError", "Run", "Sentence", "Span", "Tagger"]
__all__ += [
    "adapt",
    "builtin_corpus",
    "compare",
    "distil",
    "export_onnx",
    "fit",
    "fit_plan",
    "pretrain",
    "read_corpus",
    "resume",
    "transfer",
]
__all__ += ["write_corpus"]
__all__ += ["register_encoder", "register_format", "register_head", "register_method", "register_recipe", "setting"]

if TYPE_CHECKING:
    from nershift.auto.fit import fit
    from nershift.auto.fit import plan as fit_plan
    from nershift.auto.recipe import register as register_recipe
    from nershift.comparison import compare
    from nershift.config import setting
    from nershift.data.builtin import builtin_corpus
    from nershift.data.corpus import Corpus
    from nershift.data.formats import read_corpus, write_corpus
    from nershift.data.formats.base import register as register_format
    from nershift.data.spans import Sentence, Span
    from nershift.distillation import distil
    from nershift.encoders.base import register as register_encoder
    from nershift.errors import NershiftError
    from nershift.heads.base import register as register_head
    from nershift.methods.base import register as register_method
    from nershift.resume_run import resume
    from nershift.run import adapt, pretrain, transfer
    from nershift.run_folder import Run
    from nershift.tagger.ensemble import Ensemble
    from nershift.tagger.entities import Entity
    from nershift.tagger.onnx.export import export_onnx
    from nershift.tagger.tagger import Tagger


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        module, _, attribute = _HOMES[name].partition(":")
        return getattr(importlib.import_module(module), attribute or name)
    raise AttributeError(f"module 'nershift' has no attribute '{name}'")


def __dir__() -> list[str]:
    """The public names, and what every module has; not what this file needs itself."""
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
