"""Answers to requests that the server turns down."""

from __future__ import annotations

from starlette.responses import JSONResponse

from nershift.errors import NershiftError, StorageError


class Refusal(Exception):
    """An answer other than success: a status, a code for programs, a message and a next step for people.

    ``field`` names the part of the body that is wrong, where one is.
    """

    def __init__(self, status: int, code: str, message: str, fix: str = "", field: str = "") -> None:
        self.status, self.code, self.message, self.fix, self.field = status, code, message, fix, field
        super().__init__(message)

    @classmethod
    def of(cls, error: NershiftError) -> Refusal:
        """An error of the library: the request asked for something that the data, or the disk, cannot give."""
        if isinstance(error, StorageError):
            return cannot_write(error)
        message = f"{error.place}: {error.found}" if error.place else error.found
        if error.expected:
            message += f" (expected: {error.expected})"
        return cls(422, "unusable", message, error.fix or "correct it and send it again")

    def response(self) -> JSONResponse:
        headers = {429: {"retry-after": "1"}, 503: {"retry-after": "1"}, 401: {"www-authenticate": "Bearer"}}
        body = {"error": {"code": self.code, "message": self.message, "fix": self.fix}}
        if self.field:
            body["error"]["field"] = self.field
        return JSONResponse(body, self.status, headers.get(self.status))


def cannot_write(error: OSError | StorageError) -> Refusal:
    """What is said where the disk takes no more."""
    found = error.found if isinstance(error, StorageError) else StorageError.of(error, "").found
    fix = "make room on the server's disk; labels stay in the browser until the server has them"
    return Refusal(507, "disk", f"a file of the server {found}", fix)


def too_busy(waiting: int) -> Refusal:
    return Refusal(429, "overloaded", f"{waiting} requests are waiting already", "try again in a moment")


def too_slow(seconds: float) -> Refusal:
    return Refusal(503, "timeout", f"no answer within {seconds:g} s", "send less text at once, or try again later")


def shutting_down() -> Refusal:
    return Refusal(503, "stopping", "the server is stopping", "try again when it is back")
