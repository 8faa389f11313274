"""An exported tagger: the same entities as the tagger it comes from, with ONNX Runtime and NumPy, without torch."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nershift.data.spans import Sentence, by_length
from nershift.errors import CheckpointError, MissingExtraError
from nershift.tagger.entities import Entity, ReadsTexts, place_entities, split_texts
from nershift.tagger.onnx.head import ArrayHead
from nershift.tagger.onnx.readers import READERS, Reader

DESCRIPTION, FORMAT = "onnx.json", 1


class OnnxTagger(ReadsTexts):
    """What ``nershift export --onnx`` wrote, ready to tag; the counterpart of :class:`~nershift.tagger.tagger.Tagger`.

    Example::

        tagger = OnnxTagger.load("clinic-onnx", threads=2)
        tagger("Dr. Okafor saw her in Leeds.")     # [Entity(start=4, end=10, label='person', …), …]
        tagger.tag_tokens([["Already", "split"]])  # sentences with token spans
    """

    def __init__(self, reader: Reader, head: ArrayHead, description: Mapping[str, Any]) -> None:
        self.reader, self.head, self.description = reader, head, dict(description)
        self.meta: dict[str, Any] = dict(description.get("meta", {}))

    @property
    def types(self) -> tuple[str, ...]:
        return self.head.space.types

    @classmethod
    def load(
        cls, folder: str | Path, threads: int = 0, providers: Sequence[str] = ("CPUExecutionProvider",)
    ) -> OnnxTagger:
        """Open a folder.

        Args:
            folder: what the export wrote.
            threads: that one call may use; 0: as many as there are cores.
            providers: of ONNX Runtime, best first.
        """
        place = Path(folder)
        description = _read(place / DESCRIPTION)

        def open_graph(path: Path) -> Any:
            return _session(path, threads, providers)

        try:
            reader_class: Any = READERS[description["kind"]]
            reader = reader_class(description["encoder"], place, open_graph)
            head = ArrayHead(description["decoder"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CheckpointError(
                f"something is missing or wrong ({type(error).__name__}: {error})",
                place=str(place / DESCRIPTION),
                expected="what nershift wrote there",
                fix="export the tagger again",
            ) from None
        return cls(reader, head, description)

    def tag_texts(self, texts: Sequence[str]) -> list[list[Entity]]:
        parts, owner = split_texts(texts)
        return place_entities(texts, self.tag_sentences(parts), owner)

    def tag_tokens(self, rows: Iterable[Sequence[str]]) -> list[Sentence]:
        return self.tag_sentences([Sentence.of(tokens) for tokens in rows])

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        """The same sentences with predicted spans in place of whatever spans they had."""
        out = [s.with_spans(()) for s in sentences]
        for part in by_length(sentences, batch_size):
            found = self.head.spans(*self.reader.scores([sentences[i].tokens for i in part]))
            for i, spans in zip(part, found, strict=True):
                out[i] = sentences[i].with_spans(spans)
        return out


def is_exported(folder: str | Path) -> bool:
    """Whether a folder holds an exported tagger."""
    return (Path(folder) / DESCRIPTION).is_file()


def _read(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise CheckpointError(
            "no exported tagger here",
            place=str(path.parent),
            expected=f"a folder with {DESCRIPTION}",
            fix="write one: nershift export --model RUN --out DIR --onnx",
        ) from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise CheckpointError(f"not readable JSON ({error})", place=str(path), fix="export the tagger again") from None
    found = description.get("format") if isinstance(description, dict) else None
    if found != FORMAT:
        raise CheckpointError(
            f"format {found!r}", place=str(path), expected=f"format {FORMAT}", fix="export the tagger again"
        )
    return dict(description)


def _session(path: Path, threads: int, providers: Sequence[str]) -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise MissingExtraError("onnxruntime", "onnx", "an exported tagger") from None
    if not path.is_file():
        raise CheckpointError("no such file", place=str(path), fix="export the tagger again")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3  # errors
    # Idle threads that spin would take the cores from the other graph of the same tagger, and from everybody else.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=list(providers))
    except Exception as error:  # the runtime's exceptions have no common base of their own
        raise CheckpointError(
            f"ONNX Runtime cannot open it ({str(error).splitlines()[0]})",
            place=str(path),
            fix="export the tagger again, or install a newer onnxruntime",
        ) from None
