"""A tagger as a component of a spaCy pipeline: ``nlp.add_pipe("nershift", config={"model": DIR})``.

spaCy finds this module by its entry point and imports it the first time the name is used. Annotations are no strings
here: older spaCy reads those of a factory as they stand.
"""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, MissingExtraError
from nershift.tagger.entities import ReadsTexts

try:
    from spacy.language import Language
    from spacy.tokens import Doc, Span
    from spacy.util import filter_spans, minibatch
except ImportError:
    raise MissingExtraError("spacy", "spacy", "the spaCy component") from None

_FOLDER = "tagger"


@Language.factory(
    "nershift",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type"],
    default_config={"model": "", "batch_size": 128, "min_confidence": 0.0, "device": "cpu"},
)
def make_nershift(
    nlp: Language, name: str, model: str, batch_size: int, min_confidence: float, device: str
) -> "NershiftComponent":
    return NershiftComponent(name, model, batch_size, min_confidence, device)


class NershiftComponent:
    """Sets ``doc.ents``, and ``span._.score`` of each entity, its probability (``span._.confidence`` until 0.3).

    Where entities overlap, all of them are in ``doc.spans["sc"]``, and ``doc.ents`` has the longest.

    The tagger reads sentence by sentence where an earlier component has set sentence boundaries, else the whole Doc
    at once. It does not see the white space that spaCy keeps as tokens.

    Args:
        name: of the component in its pipeline.
        model: a folder of a tagger, exported or not. It is loaded at the first Doc, so that a saved pipeline, which
            has its own copy, loads where this folder does not exist.
        batch_size: sentences tagged at once.
        min_confidence: entities below are dropped.
        device: for a tagger that runs with torch.
    """

    def __init__(
        self, name: str, model: str, batch_size: int = 128, min_confidence: float = 0.0, device: str = "cpu"
    ) -> None:
        self.name, self.model, self.device = name, model, device
        self.batch_size, self.min_confidence = batch_size, min_confidence
        self._tagger: ReadsTexts | None = None
        if not Span.has_extension("score"):
            Span.set_extension("score", default=None)
        if not Span.has_extension("confidence"):
            Span.set_extension("confidence", getter=lambda span: span._.score)

    @property
    def tagger(self) -> ReadsTexts:
        if self._tagger is None:
            if not self.model:
                raise CheckpointError(
                    "no tagger was named",
                    place=f"pipeline component '{self.name}'",
                    expected="the folder of a finished run",
                    fix='nlp.add_pipe("nershift", config={"model": DIR})',
                )
            self._tagger = _open(Path(self.model), self.device)
        return self._tagger

    @property
    def labels(self) -> tuple[str, ...]:
        """Entity types; none where the tagger cannot be loaded."""
        return self.tagger.types if self._tagger is not None or Path(self.model).is_dir() else ()

    def __call__(self, doc: Doc) -> Doc:
        self._annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        for docs in minibatch(stream, batch_size):
            batch = list(docs)
            self._annotate(batch)
            yield from batch

    def _annotate(self, docs: Sequence[Doc]) -> None:
        parts = [list(_sentences(doc)) for doc in docs]
        rows = [Sentence.of(token.text for token in tokens) for mine in parts for tokens in mine]
        tagged = iter(self.tagger.tag_sentences(rows, self.batch_size))
        for doc, mine in zip(docs, parts, strict=True):
            scored: list[tuple[Span, float]] = []
            for tokens in mine:
                for span in next(tagged).spans:
                    if (span.score or 0.0) >= self.min_confidence:
                        first, last = tokens[span.start].i, tokens[span.end - 1].i
                        scored.append((Span(doc, first, last + 1, label=span.label), span.score or 0.0))
            entities = [entity for entity, _ in scored]
            flat = filter_spans(entities)
            if len(flat) < len(entities):  # doc.ents cannot hold spans that overlap
                doc.spans["sc"] = entities
            doc.set_ents(flat, default="outside")
            for entity, score in scored:
                entity._.score = score

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Save a complete copy of the tagger in the pipeline's folder."""
        from nershift.tagger.tagger import Tagger

        target = Path(path) / _FOLDER
        if isinstance(self.tagger, Tagger):
            self.tagger.save(target)
        elif Path(self.model).resolve() != target.resolve():
            shutil.copytree(self.model, target, dirs_exist_ok=True)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "NershiftComponent":
        self.model = str(Path(path) / _FOLDER)
        self._tagger = _open(Path(self.model), self.device)
        return self


def _sentences(doc: Doc) -> Iterator[list[Any]]:
    """The tokens of each sentence, without white space."""
    for part in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
        if tokens := [token for token in part if not token.is_space]:
            yield tokens


def _open(folder: Path, device: str) -> ReadsTexts:
    from nershift.tagger.onnx.tagger import OnnxTagger, is_exported

    if is_exported(folder):
        return OnnxTagger.load(folder)
    from nershift.tagger.tagger import Tagger

    return Tagger.load(folder, device)
