"""Tag folders of JSONL or Parquet files on a Ray cluster: the same records, with entities."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from nershift.errors import DataError, MissingExtraError, NershiftError
from nershift.parsing import parse_json
from nershift.storage import replacing
from nershift.tagger.ray_cluster import connect
from nershift.tagger.tagger import Tagger

KINDS = (".jsonl", ".parquet")
_BATCH = 256  # records tagged at once, as many as `predict` takes
_SHARE = 0.5  # CPUs per tagger: with whole ones, none would be left to read the files
_RECORD = 'one JSON object per line, with a string under "text"'


def predict_folder(
    model: Path,
    folder: Path,
    out: Path,
    *,
    address: str = "local",
    workers: int | None = None,
    min_confidence: float = 0.0,
    adapt: bool = False,
    verify: bool = True,
) -> tuple[int, int]:
    """Add an ``entities`` field to every record of a folder's files, written to files of the same names.

    Entities are what ``Tagger.tag_texts`` finds in ``text``; all other fields stay as they are, in their order.
    Every node must see model and files under the same path; results are written on this machine.

    Args:
        address: of a Ray cluster; ``local`` starts a temporary one.
        workers: processes that tag at once; by default one per GPU, or per CPU where the cluster has no GPU.
        verify: compare the hashes of the model's files with its manifest first, here and in every worker.

    Returns:
        Numbers of records and entities.
    """
    files, kind = _files(folder)
    if out.resolve() == folder.resolve():
        raise DataError("would be overwritten", place=str(folder), fix="give another folder to --out")
    Tagger.load(model, verify=verify)  # fails here, not in every worker
    ray, leave = connect(address, (workers or os.cpu_count() or 1) + 1)
    try:
        import ray.data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        settings = ray.data.DataContext.get_current()
        settings.enable_progress_bars, settings.execution_options.preserve_order = False, True
        resources = ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        count = workers or gpus or max(1, int(resources.get("CPU", 2)) - 1)
        paths = [str(path.resolve()) for path in files]
        if kind == ".jsonl":
            data = ray.data.read_text(paths, include_paths=True, drop_empty_lines=False)
        else:
            data = ray.data.read_parquet(paths, include_paths=True)
        tagged = data.map_batches(
            _Tag,
            fn_constructor_args=(str(model.resolve()), kind, min_confidence, adapt, verify),
            batch_size=_BATCH,
            batch_format="pyarrow",
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=count),
            num_cpus=_SHARE,
            num_gpus=min(1.0, gpus / count),
        )
        write = _write_lines if kind == ".jsonl" else _write_tables
        return write(tagged.iter_batches(batch_size=None, batch_format="pyarrow"), out)
    except ImportError as error:  # of a part of Ray Data; the cause says which
        raise MissingExtraError("ray[data]", "ray", "tagging on a Ray cluster") from error
    except ray.exceptions.RayError as error:
        raise _unwrapped(error, folder) from None
    finally:
        leave()


def _files(folder: Path) -> tuple[list[Path], str]:
    files_of = {kind: sorted(folder.glob(f"*{kind}")) for kind in KINDS} if folder.is_dir() else {}
    kinds = [kind for kind, files in files_of.items() if files]
    if len(kinds) != 1:
        raise DataError(
            f"holds files of both kinds: {', '.join(kinds)}" if kinds else "holds nothing to tag",
            place=str(folder),
            expected=f"a folder of {' or of '.join(KINDS)} files",
        )
    return files_of[kinds[0]], kinds[0]


class _Tag:
    """Runs in a worker: adds entities, or an error message, to a table of lines or records."""

    def __init__(self, model: str, kind: str, min_confidence: float, adapt: bool, verify: bool = True) -> None:
        import torch

        self.tagger = Tagger.load(model, "cuda" if torch.cuda.is_available() else "cpu", verify)
        self.kind, self.least, self.adapt = kind, min_confidence, adapt

    def __call__(self, table: Any) -> Any:
        import pyarrow as pa

        if self.kind == ".parquet":
            texts: list[Any] = table.column("text").to_pylist() if "text" in table.column_names else [None]
            good = [isinstance(text, str) for text in texts]
            if not all(good):
                place = table.column("path")[good.index(False)].as_py()
                raise DataError("a record without a text", place=place, expected='a string column "text"')
            numbers, strings = pa.int64(), pa.string()
            fields = {"start": numbers, "end": numbers, "label": strings, "text": strings, "score": pa.float64()}
            fields |= {"token_start": numbers, "token_end": numbers}
            column = pa.array(self._entities(texts), pa.list_(pa.struct(list(fields.items()))))
            kept = [name for name in table.column_names if name != "entities"]
            return table.select(kept).append_column("entities", column)
        records = [_record(line) for line in table.column("text").to_pylist()]
        entities = iter(self._entities([r["text"] for r in records if isinstance(r, dict)]))
        lines = [
            json.dumps({**r, "entities": next(entities)}, ensure_ascii=False) if isinstance(r, dict) else ""
            for r in records
        ]
        wrong = [r if isinstance(r, str) else "" for r in records]
        return pa.table({"path": table.column("path"), "line": lines, "wrong": wrong})

    def _entities(self, texts: list[str]) -> list[list[dict[str, Any]]]:
        tagged = self.tagger.tag_texts(texts, self.adapt) if texts else []
        return [[e.to_dict() for e in entities if e.score >= self.least] for entities in tagged]


def _record(line: str) -> dict[str, Any] | str | None:
    """The record of a line, what is wrong with it, or None for a blank one."""
    if not line.strip():
        return None
    try:
        record = parse_json(line.removeprefix("\ufeff"))
    except ValueError as error:
        return f"not JSON: {error}"
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        return "a record without a text"
    return record


def _by_file(tables: Iterator[Any]) -> Iterator[tuple[Path, Iterator[Any]]]:
    """Tables in order, split so that each holds records of one file, grouped by file."""

    def cut() -> Iterator[tuple[str, Any]]:
        for table in tables:
            at = 0
            for path, run in groupby(table.column("path").to_pylist()):
                length = len(list(run))
                yield path, table.slice(at, length)
                at += length

    for path, parts in groupby(cut(), key=lambda part: part[0]):
        yield Path(path), (table for _, table in parts)


def _write_lines(tables: Iterator[Any], out: Path) -> tuple[int, int]:
    records = entities = 0
    for path, parts in _by_file(tables):
        number = 0
        with replacing(out / path.name) as temporary, open(temporary, "w", encoding="utf-8") as file:
            for part in parts:
                for line, wrong in zip(*(part.column(c).to_pylist() for c in ("line", "wrong")), strict=True):
                    number += 1
                    if wrong:
                        raise DataError(wrong, place=f"{path}:{number}", expected=_RECORD)
                    if line:
                        file.write(line + "\n")
                        records += 1
                        entities += len(json.loads(line)["entities"])
    return records, entities


def _write_tables(tables: Iterator[Any], out: Path) -> tuple[int, int]:
    from pyarrow import parquet

    records = entities = 0
    for path, parts in _by_file(tables):
        with replacing(out / path.name) as temporary:
            writer = None
            for part in parts:
                kept = part.drop_columns(["path"])
                writer = writer or parquet.ParquetWriter(temporary, kept.schema)
                writer.write_table(kept)
                records += kept.num_rows
                entities += sum(map(len, kept.column("entities").to_pylist()))
            if writer is not None:
                writer.close()
    return records, entities


def _unwrapped(error: Exception, folder: Path) -> NershiftError:
    """The error of a worker as it would be without Ray."""
    cause: Any = error
    while cause is not None:
        if isinstance(cause, NershiftError):
            return DataError(str(cause))
        if isinstance(cause, UnicodeDecodeError):
            return DataError("holds a file that is not UTF-8", place=str(folder), fix="save it as UTF-8")
        cause = getattr(cause, "cause", None) or cause.__cause__
    return DataError(f"cannot be tagged: {str(error).strip().splitlines()[-1]}", place=str(folder))
