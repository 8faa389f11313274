"""Downloads: labels in any format that can be written, and the folder of a version."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from nershift.data.formats import FORMATS, writable, write_sentences
from nershift.data.spans import Sentence
from nershift.server.refusals import Refusal, cannot_write
from nershift.server.version_folder import LABELS_FILE

_TEXT = "text/plain; charset=utf-8"
_ZIP = "application/zip"


def export(sentences: Sequence[Sentence], format: str) -> tuple[bytes, str, str]:
    """Labelled sentences in a format: content, media type and file name; several files come as a zip."""
    if format not in writable():
        raise Refusal(422, "format", "this format cannot be written", f"choose one of: {', '.join(writable())}")
    try:
        return _export(sentences, format)
    except OSError as error:
        raise cannot_write(error) from None


def _export(sentences: Sequence[Sentence], format: str) -> tuple[bytes, str, str]:
    suffixes = FORMATS[format].suffixes
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "out" / f"labels{suffixes[0] if suffixes else ''}"
        path.parent.mkdir()
        write_sentences(path, sentences, format)
        files = sorted(p for p in path.parent.rglob("*") if p.is_file())
        if files == [path]:
            content = path.read_bytes()
            try:
                content.decode("utf-8")
            except UnicodeDecodeError:
                return content, "application/octet-stream", path.name
            return content, _TEXT, path.name
        packed = Path(folder) / "labels.zip"
        zip_files(path.parent, files, packed)
        return packed.read_bytes(), _ZIP, f"labels-{format}.zip"


def zip_folder(folder: Path, name: str, labels: bool = False) -> Path:
    """A zip of a version's folder as a temporary file, which the caller removes.

    Args:
        labels: with the sentences that the version has learned from, which are the annotators'.
    """
    files = sorted(p for p in folder.rglob("*") if p.is_file() and (labels or p != folder / LABELS_FILE))
    try:
        with tempfile.NamedTemporaryFile(prefix="nershift-", suffix=".zip", delete=False) as file:
            target = Path(file.name)
        try:
            zip_files(folder, files, target, inside=name)
        except BaseException:
            target.unlink()
            raise
    except OSError as error:
        raise cannot_write(error) from None
    return target


def zip_files(root: Path, files: Sequence[Path], target: Path, inside: str = "") -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as packed:
        for path in files:
            packed.write(path, str(Path(inside) / path.relative_to(root)))
