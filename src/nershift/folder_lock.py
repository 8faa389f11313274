"""One writer per folder: whoever writes to it holds a lock, which the system releases when the process dies."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from nershift.errors import CheckpointError, StorageError

LOCK_FILE = ".lock"


class FolderLock:
    """Held from the start until :meth:`release`, or the end of a ``with`` block.

    The file of the lock goes with it: a folder that nobody writes to has none.

    Args:
        folder: is made if it is not there.
        what: holds the folder, for the message to whoever comes second.
        fix: what they can do.

    Raises:
        CheckpointError: somebody else holds it.
    """

    def __init__(self, folder: Path, what: str, fix: str) -> None:
        self._path, self._what, self._fix = folder / LOCK_FILE, what, fix
        self._number: int | None = None
        while self._number is None:  # the one before may have removed the file while it was opened here
            self._number = self._take()

    def _take(self) -> int | None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            number = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise StorageError.of(error, self._path.parent) from None
        try:
            import fcntl
        except ImportError:  # not on this system: people have to see to it themselves
            return number
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(number), os.stat(self._path)):
                return number
        except FileNotFoundError:
            pass
        except BlockingIOError:
            os.close(number)
            found = f"{self._what} uses this folder"
            raise CheckpointError(found, place=str(self._path.parent), fix=self._fix) from None
        except OSError:  # a drive without locks
            return number
        os.close(number)
        return None

    def release(self) -> None:
        if self._number is None:
            return
        with suppress(OSError):
            self._path.unlink()
        with suppress(OSError):
            os.close(self._number)
        self._number = None

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
