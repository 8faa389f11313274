"""Every failure a user can cause is one of these; the message says place, found, expected and next step."""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterable

_LONGEST = 2_000  # characters of a part of a message


class NershiftError(Exception):
    """Base of all errors that the command line prints as a message instead of a traceback.

    Example:
        >>> print(NershiftError("the file is empty", place="train.conll", fix="check the export"))
        train.conll: the file is empty
          what to do: check the export
    """

    exit_code = 1  # of the command line

    def __init__(self, found: str, *, place: str = "", expected: str = "", about: str = "", fix: str = "") -> None:
        found, place, expected, fix = map(_shortened, (found, place, expected, fix))
        self.found, self.place, self.expected, self.about, self.fix = found, place, expected, about, fix
        lines = [f"{place}: {found}" if place else found]
        if expected:
            lines.append(f"  expected: {expected}")
        if about:
            lines.append(f"  what it is: {about}")
        if fix:
            lines.append(f"  what to do: {fix}")
        super().__init__("\n".join(lines))


def _shortened(part: str) -> str:
    """A part of a message that may quote a file or a value."""
    return part if len(part) <= _LONGEST else f"{part[:_LONGEST]} … and {len(part) - _LONGEST:,} characters more"


class DataError(NershiftError):
    """A corpus file that cannot be read as it stands."""


class StorageError(DataError):
    """A file that cannot be written: a full disk, a folder without the right to write."""

    @classmethod
    def of(cls, error: OSError, path: object) -> StorageError:
        found = f"cannot be written ({error.strerror or error})"
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or "space left" in str(error):
            return cls(found, place=str(path), fix="make room on the disk, then do the same again")
        return cls(found, place=str(path), fix="check the folder and its rights")


class ConfigError(NershiftError):
    """A setting that does not exist, has the wrong type or contradicts another."""


class CheckpointError(NershiftError):
    """A run folder or saved tagger that is broken or does not fit the request."""

    @classmethod
    def of_finished(cls, error: NershiftError) -> CheckpointError:
        """What is wrong with a run that is finished, and would be returned as it is."""
        return cls(
            f"the run is finished, but damaged: {error.found}",
            place=error.place,
            expected="what training wrote there",
            fix="restore it, or train again: --overwrite (in Python: overwrite=True)",
        )


class OtherRunError(CheckpointError):
    """A run folder that holds a run with other settings or data."""


class SetupError(NershiftError):
    """A method asked to work on data or label spaces that cannot serve it."""


class MissingExtraError(NershiftError):
    """A feature whose optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package '{package}', which is not installed",
            fix=f"pip install 'nershift[{extra}]'",
        )


class Interrupted(NershiftError):
    """The run was stopped from outside, after a checkpoint: the same command goes on from there."""

    exit_code = 130


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name that looks most like a misspelt one."""
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)), None)


def nearest(word: str, known: Iterable[str]) -> str:
    """A ' (did you mean …?)' hint for a misspelt name, or an empty string."""
    close = closest(word, known)
    return f" (did you mean '{close}'?)" if close else ""
