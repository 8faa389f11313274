"""The page of the Python interface: every public name with its docstring, read from the code when the site is built."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import nershift

# Heading: public names, then parts of modules that the guides name. A test sees that no public name is left out.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Data": ("read_corpus", "write_corpus", "builtin_corpus", "Corpus", "Sentence", "Span"),
    "Training": ("fit", "fit_plan", "transfer", "pretrain", "adapt", "resume", "distil", "Run", "compare"),
    "Tagging": ("Tagger", "Ensemble", "Entity", "export_onnx"),
    "Parts of your own": (
        "register_method",
        "register_head",
        "register_encoder",
        "register_format",
        "register_recipe",
        "setting",
    ),
    "Errors": ("NershiftError",),
}
MODULES = {
    "What to label": ("nershift.labelling.curve.measure", "nershift.labelling.choose.choose"),
    "Without torch": ("nershift.tagger.onnx.tagger.OnnxTagger",),
    "Agreement": ("nershift.evaluation.agreement.agreement",),
}
_INTRODUCTION = """# The Python interface

Generated from the docstrings. Examples run in the tests. Everything else in the package may change without notice.
"""


def page() -> str:
    """The page as Markdown with directives of Sphinx."""
    named = {heading: [f"nershift.{name}" for name in names] for heading, names in SECTIONS.items()}
    parts = [_INTRODUCTION]
    for heading, names in [*named.items(), *MODULES.items()]:
        parts += [f"## {heading}", *(directive for name in names for directive in _directive(name))]
    return "\n\n".join(parts) + "\n"


def _directive(name: str) -> Iterator[str]:
    module, _, attribute = name.rpartition(".")
    thing = getattr(__import__(module, fromlist=[attribute]), attribute)
    kind, members = ("autoclass", "\n   :members:") if inspect.isclass(thing) else ("autofunction", "")
    yield f"```{{eval-rst}}\n.. {kind}:: {name}{members}\n```"


def left_out() -> set[str]:
    """Public names without a place on the page."""
    return set(nershift.__all__) - {name for names in SECTIONS.values() for name in names}
