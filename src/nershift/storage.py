"""Files that are complete or absent: everything is written to a temporary path and then moved."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from math import prod
from pathlib import Path
from typing import Any

from nershift.errors import CheckpointError, ConfigError, DataError, StorageError


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; on success it is flushed to disk and replaces ``path``."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield temporary
        if path.is_dir():
            old = path.with_name(f".{path.name}.{os.getpid()}.old")
            path.rename(old)
            temporary.rename(path)
            shutil.rmtree(old)
        else:
            if temporary.is_file():
                with open(temporary, "rb+") as file:
                    os.fsync(file.fileno())
            os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError.of(error, path) from None
    finally:
        if temporary.is_dir():
            shutil.rmtree(temporary, ignore_errors=True)
        else:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Bring new names in a folder to the disk: after a power cut a renamed file would else have its old name."""
    if not hasattr(os, "O_DIRECTORY"):  # a system that cannot
        return
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network drives refuse
            os.fsync(number)
    finally:
        os.close(number)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Call ``write(temporary)`` and move what it wrote to ``path``."""
    with replacing(path) as temporary:
        write(temporary)


@contextmanager
def rebuilding(path: Path) -> Iterator[None]:
    """Whatever fails while an object is rebuilt from what we wrote to ``path`` means that the file is damaged."""
    try:
        yield
    except (
        ConfigError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RuntimeError,
        MemoryError,
    ) as error:
        raise CheckpointError(
            f"something is missing or wrong ({type(error).__name__}: {error})",
            place=str(path),
            expected="what nershift wrote there",
            fix="restore it, or train again",
        ) from None


def clear_leftovers(folder: Path) -> None:
    """Remove the temporary files that a killed process left in a folder."""
    for pattern in (".*.tmp", ".*.old"):
        for path in folder.glob(pattern):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 (compressed when the name ends in ``.gz``); the old file stays until the new is complete."""
    # A reader drops one byte order mark, so text that begins with that character needs a second one.
    text = "\ufeff" + text if text.startswith("\ufeff") else text
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise DataError(
            f"character U+{ord(text[error.start]):04X} cannot be written as UTF-8",
            place=str(path),
            expected="text without lone surrogates",
            fix="replace the character in the source",
        ) from None
    write_bytes(path, gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)


def write_bytes(path: Path, data: bytes) -> None:
    replace_file(path, lambda p: p.write_bytes(data))


def save_tensors(path: Path, tensors: Mapping[str, Any], meta: Mapping[str, Any]) -> None:
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    flat = {k: v.detach().to("cpu").contiguous() for k, v in tensors.items()}

    def write(to: Path) -> None:
        to.touch()
        mode = to.stat().st_mode  # as the umask has it; save_file would let nobody else read the file
        try:
            save_file(flat, to, metadata={"nershift": json.dumps(meta)})
        except SafetensorError as error:
            raise OSError(str(error)) from None
        to.chmod(mode)

    replace_file(path, write)


def load_tensors(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    from safetensors import safe_open

    with _readable(path), safe_open(path, framework="pt") as file:
        meta = json.loads((file.metadata() or {}).get("nershift", "{}"))
        return {k: file.get_tensor(k) for k in file.keys()}, meta  # noqa: SIM118 - not a dict


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Errors of the library about a safetensors file as ours."""
    from safetensors import SafetensorError

    try:
        yield
    except FileNotFoundError:
        raise CheckpointError("no such file", place=str(path)) from None
    except (SafetensorError, json.JSONDecodeError, OSError) as error:
        raise CheckpointError(
            f"not a readable safetensors file ({error})",
            place=str(path),
            fix="remove the run folder and start again, or restore the file",
        ) from None


def tensor_sizes(path: Path) -> dict[str, int]:
    """How many elements each tensor of a file has, as its header says; the library checks that the file holds them."""
    from safetensors import safe_open

    with _readable(path), safe_open(path, framework="pt") as file:
        return {name: prod(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - not a dict
