"""Methods that learn from the unlabelled text of domains: which text belongs to which domain."""

from __future__ import annotations

from collections.abc import Sequence

from nershift.data.corpus import Corpus
from nershift.data.raw import RawText
from nershift.data.spans import Sentence
from nershift.errors import SetupError, nearest
from nershift.methods.base import TARGET, Method

SOURCE = "source"  # what raw text of the only source may be called


def domain_name(source: Corpus) -> str:
    return f"source {source.name}"


class TextMethod(Method):
    """Domains are the sources and the target. Nothing of the target's dev and test splits is read."""

    @property
    def labelled(self) -> tuple[Sentence, ...]:
        """The target's labelled sentences, if there are any."""
        return self.target.splits.get("train", ())

    def texts(self) -> dict[str, Sequence[Sentence]]:
        """Text by domain: raw text where there is any, else the labelled sentences without their labels."""
        corpora = {domain_name(c): c for c in self.setup.sources} | {TARGET: self.target}
        found: dict[str, Sequence[Sentence]] = {
            domain: c.splits.get("raw") or c.splits.get("train", ()) for domain, c in corpora.items()
        }
        for name, text in self.setup.raw.items():
            found[self._domain_of(name)] = text
        return {domain: text for domain, text in found.items() if len(text)}

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
            f"raw text was given for '{name}', which is no domain of this run{nearest(name, known)}",
            place="--raw",
            expected=f"one of: {', '.join(known)}",
        )

    def check_source_head(self) -> None:
        """Without target labels, one head of the sources has to serve."""
        sources = self.setup.sources
        if not sources or not self.homogeneous:
            found = "each of the sources has its own types" if sources else "there are no sources"
            raise SetupError(
                f"without target labels, the head of the sources has to serve, and {found}",
                place="--source",
                expected="sources with one set of entity types",
                fix="rename or drop types with a label map, or label some target sentences",
            )

    def run_notes(self) -> list[str]:
        texts = [t for t in self.setup.raw.values() if isinstance(t, RawText) and t.bad]
        return [*super().run_notes(), *(f"raw text {text.summary()}" for text in texts)]
