"""For methods that learn from unlabelled text: which text belongs to which domain."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from nershift.data.apart import Without, without
from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.errors import SetupError, nearest
from nershift.methods.base import TARGET, Method
from nershift.model import TaggingModel

SOURCE = "source"  # raw text may have this name if there is only one source


def domain_name(source: Corpus) -> str:
    return f"source {source.name}"


class TextMethod(Method):
    """The domains are the sources and the target. The target's dev and test splits are never read."""

    @property
    def labelled(self) -> tuple[Sentence, ...]:
        """The target's labelled sentences; empty without any."""
        return self.target.splits.get("train", ())

    @cached_property
    def _own_texts(self) -> dict[str, Sequence[Sentence]]:
        """What the corpora themselves have: raw splits, or else training sentences."""
        corpora = {domain_name(c): c for c in self.setup.sources} | {TARGET: self.target}
        return {
            domain: c.splits.get("raw") or without(c.splits.get("train", ()), self.setup.scored)
            for domain, c in corpora.items()
        }

    def texts(self) -> dict[str, Sequence[Sentence]]:
        """Text by domain: its raw text if there is any, otherwise its training sentences.

        None of it is in the target's dev or test split.
        """
        texts = dict(self._own_texts)
        for name, text in self.setup.raw.items():
            texts[self._domain_of(name)] = text
        return {domain: text for domain, text in texts.items() if len(text)}

    def _domain_of(self, name: str) -> str:
        sources = {c.name: domain_name(c) for c in self.setup.sources}
        if name in (TARGET, self.target.name):
            return TARGET
        if name in sources:
            return sources[name]
        if name == SOURCE and len(sources) < 2:
            return next(iter(sources.values()), SOURCE)
        known = [TARGET, *([SOURCE] if len(sources) < 2 else []), *sources]
        raise SetupError(
            f"raw text was given for '{name}', which is not a domain of this run{nearest(name, known)}",
            place="--raw",
            expected=f"one of: {', '.join(known)}",
        )

    def check_source_head(self) -> None:
        """Refuse sources without one common head, which a target without labels needs."""
        sources = self.setup.sources
        if not sources or not self.homogeneous:
            reason = "the sources differ in types" if sources else "there are no sources"
            raise SetupError(
                f"without target labels the head of the sources must tag the target, but {reason}",
                place="--source",
                expected="sources with one set of entity types",
                fix="rename or drop types with a label map, or label some target sentences",
            )

    def run_notes(self, model: TaggingModel) -> list[str]:
        given = [t.text if isinstance(t, Without) else t for t in self.setup.raw.values()]
        texts = [t for t in given if isinstance(t, RawText) and t.bad]
        own = [text for text in self.texts().values() if any(text is kept for kept in self._own_texts.values())]
        left_out = sum(len(text.removed) for text in own if isinstance(text, Without))
        notes = [training_text(left_out)] if left_out else []
        return [*super().run_notes(model), *notes, *(f"raw text {text.summary()}" for text in texts)]


def training_text(left_out: int) -> str:
    """That training sentences which were read as text lacked some."""
    return f"{left_out:,} training sentences are in the target's dev or test split: they were not read as text."
