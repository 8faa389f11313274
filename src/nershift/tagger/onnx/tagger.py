"""An exported tagger: the same entities as the tagger it comes from, with ONNX Runtime and NumPy, without torch."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nershift.data.spans import Sentence
from nershift.errors import CheckpointError, MissingExtraError
from nershift.manifest import check_files
from nershift.tagger.entities import ReadsTexts
from nershift.tagger.long_sentences import tag_in_parts
from nershift.tagger.onnx.head import ArrayHead
from nershift.tagger.onnx.readers import READERS, Reader
from nershift.text.batches import bounded_batches

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
        return self.head.predicted_types

    @classmethod
    def load(
        cls,
        folder: str | Path,
        threads: int = 0,
        providers: Sequence[str] = ("CPUExecutionProvider",),
        verify: bool = True,
    ) -> OnnxTagger:
        """Open a folder.

        Args:
            folder: written by the export.
            threads: per call; 0 for as many as there are cores.
            providers: of ONNX Runtime, best first.
            verify: compare the hashes of its files with the folder's manifest first.
        """
        place = Path(folder)
        description = _read(place / DESCRIPTION)
        if verify:
            check_files(place)
        try:
            reader_class: Any = READERS[description["kind"]]
            open_graph = partial(_session, threads=threads, providers=providers)
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

    def tag_sentences(self, sentences: Sequence[Sentence], batch_size: int = 128) -> list[Sentence]:
        return tag_in_parts(sentences, partial(self._tag, batch_size=batch_size))

    def _tag(self, sentences: Sequence[Sentence], batch_size: int) -> list[Sentence]:
        out = [s.with_spans(()) for s in sentences]
        for part in bounded_batches(sentences, batch_size):
            predicted = self.head.spans(*self.reader.scores([sentences[i].tokens for i in part]))
            for i, spans in zip(part, predicted, strict=True):
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
    version = description.get("format") if isinstance(description, dict) else None
    if version != FORMAT:
        expected, fix = f"format {FORMAT}", "export the tagger again"
        raise CheckpointError(f"format {version!r}", place=str(path), expected=expected, fix=fix)
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
    # Spinning idle threads would take cores from the tagger's other graph and from other processes.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=list(providers))
    except Exception as error:  # the runtime's exceptions have no common base of their own
        raise CheckpointError(
            f"ONNX Runtime cannot open it ({str(error).splitlines()[0]})",
            place=str(path),
            fix="export the tagger again, or install a newer onnxruntime",
        ) from None
